//! From a batch of points to the shards that own their metrics.

use std::sync::Arc;

use plumbago_model::PointBatch;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The hash under which a metric is found; the seed is the process's secret.
pub(crate) type NameHash = [u32; 4];

/// Hashes names and spreads them over the shards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Router {
    seed: u64,
    shards: usize,
}

/// A shard's share of a batch.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) batch: Arc<PointBatch>,
    /// Hash and place in the batch, in the order of arrival.
    pub(crate) entries: Vec<(NameHash, u32)>,
}

impl Router {
    pub(crate) fn new(seed: u64, shards: usize) -> Self {
        Self { seed, shards }
    }

    #[inline]
    pub(crate) fn hash(&self, name: &str) -> NameHash {
        self.hash_bytes(name.as_bytes())
    }

    #[inline]
    fn hash_bytes(&self, name: &[u8]) -> NameHash {
        let hash = xxh3_128_with_seed(name, self.seed);
        [hash as u32, (hash >> 32) as u32, (hash >> 64) as u32, (hash >> 96) as u32]
    }

    #[inline]
    pub(crate) fn shard(&self, hash: &NameHash) -> usize {
        ((u64::from(hash[3]) * self.shards as u64) >> 32) as usize
    }

    /// One share for each shard, empty ones included.
    pub(crate) fn split(&self, batch: PointBatch) -> Vec<Share> {
        let batch = Arc::new(batch);
        let room = batch.len() / self.shards + batch.len() / 8 + 1;
        let mut shares: Vec<Share> = (0..self.shards)
            .map(|_| Share { batch: Arc::clone(&batch), entries: Vec::with_capacity(room) })
            .collect();
        for (at, point) in batch.points().iter().enumerate() {
            let hash = self.hash_bytes(batch.name_bytes(point));
            shares[self.shard(&hash)].entries.push((hash, at as u32));
        }
        shares
    }
}
