//! Decides which shard owns a metric, by a hash of its name.

use std::sync::Arc;

use plumbago_model::PointBatch;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The hash of a metric's name. Its seed is random, so that no sender can choose names whose hashes collide.
pub(crate) type NameHash = [u32; 4];

/// Hashes names and distributes them over the shards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Router {
    seed: u64,
    shards: usize,
}

/// The hash of a point's name, and the point's position in its batch.
pub(crate) type Entry = (NameHash, u32);

/// The points of a batch that one shard owns.
#[derive(Debug)]
pub(crate) struct ShardBatch {
    pub(crate) batch: Arc<PointBatch>,
    /// The points, in order of arrival.
    pub(crate) entries: Vec<Entry>,
}

impl Router {
    pub(crate) fn new(seed: u64, shards: usize) -> Self {
        Self { seed, shards }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    #[inline]
    pub(crate) fn hash(&self, name: &str) -> NameHash {
        self.hash_bytes(name.as_bytes())
    }

    #[inline]
    pub(crate) fn hash_bytes(&self, name: &[u8]) -> NameHash {
        let hash = xxh3_128_with_seed(name, self.seed);
        [hash as u32, (hash >> 32) as u32, (hash >> 64) as u32, (hash >> 96) as u32]
    }

    #[inline]
    pub(crate) fn shard(&self, hash: &NameHash) -> usize {
        ((u64::from(hash[3]) * self.shards as u64) >> 32) as usize
    }

    /// Groups the points of a batch by shard. Shards without a point are left out.
    pub(crate) fn route(&self, batch: &PointBatch) -> Vec<(usize, Vec<Entry>)> {
        let room = batch.len() / self.shards + batch.len() / 8 + 1;
        let mut entries: Vec<Vec<Entry>> = vec![Vec::new(); self.shards];
        for (at, point) in batch.points().iter().enumerate() {
            let hash = self.hash_bytes(batch.name_bytes(point));
            let entries = &mut entries[self.shard(&hash)];
            if entries.is_empty() {
                entries.reserve(room);
            }
            entries.push((hash, at as u32));
        }
        entries.into_iter().enumerate().filter(|(_, entries)| !entries.is_empty()).collect()
    }

    /// Groups positions in `hashes` by shard. Shards without a position are left out.
    pub(crate) fn group(&self, hashes: &[NameHash]) -> Vec<(usize, Vec<usize>)> {
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.shards];
        for (place, hash) in hashes.iter().enumerate() {
            places[self.shard(hash)].push(place);
        }
        places.into_iter().enumerate().filter(|(_, places)| !places.is_empty()).collect()
    }
}
