//! Who writes: the replica and the writer ids that stand in every coarse row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plumbago_store::StoreError;
use uuid::Uuid;

use crate::layout::{self, IDS_PER_WRITER, WRITERS};
use crate::metadata::NameStore;

/// The replica of a writer, and the first of the consecutive ids that it owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    replica: u8,
    first: u16,
}

impl Identity {
    /// The writer that owns the ids from `writer` on, rounded down to a whole group of them.
    pub fn new(replica: u8, writer: u16) -> Self {
        Self { replica: replica & 3, first: writer % WRITERS / IDS_PER_WRITER * IDS_PER_WRITER }
    }

    /// The writer that a random number means.
    pub fn draw(replica: u8, random: Uuid) -> Self {
        Self::new(replica, (random.as_u128() >> 16) as u16)
    }

    /// The replica.
    pub fn replica(self) -> u8 {
        self.replica
    }

    /// The first writer id; what is kept in the data directory.
    pub fn writer(self) -> u16 {
        self.first
    }

    /// The shard of its `n`th id.
    pub fn shard(self, n: u16) -> i16 {
        layout::shard(self.replica, self.first + n % IDS_PER_WRITER)
    }

    /// True when the shard is one of its own.
    pub fn owns(self, shard: i16) -> bool {
        layout::replica_of(shard) == self.replica
            && layout::writer_of(shard) / IDS_PER_WRITER == self.first / IDS_PER_WRITER
    }
}

/// An identity that may still change until the first row is written.
#[derive(Debug, Clone)]
pub(crate) struct SharedIdentity(Arc<AtomicU32>);

impl SharedIdentity {
    pub(crate) fn new(identity: Identity) -> Self {
        let shared = Self(Arc::default());
        shared.set(identity);
        shared
    }

    pub(crate) fn get(&self) -> Identity {
        let packed = self.0.load(Ordering::Relaxed);
        Identity { replica: (packed >> 16) as u8, first: packed as u16 }
    }

    pub(crate) fn set(&self, identity: Identity) {
        self.0.store(u32::from(identity.replica) << 16 | u32::from(identity.first), Ordering::Relaxed);
    }
}

impl NameStore {
    /// Registers the writer ids for an instance. False when another instance has one of them: then a
    /// new identity has to be drawn.
    pub(crate) async fn register_writer(
        &self,
        identity: Identity,
        instance: Uuid,
        host: &str,
    ) -> Result<bool, StoreError> {
        let (replica, first) = (i16::from(identity.replica()), identity.writer() as i16);
        let last = first + IDS_PER_WRITER as i16 - 1;
        let taken: Vec<(i16, Option<Uuid>)> =
            self.rows("read writers", self.text.writers(), (replica, first, last)).await?;
        if taken.iter().any(|(_, owner)| *owner != Some(instance)) {
            return Ok(false);
        }
        self.run("register the writer", self.text.insert_writer(), (replica, first, instance, host)).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_own_groups_of_ids() {
        let identity = Identity::new(1, 13);
        assert_eq!(identity.writer(), 8);
        assert_eq!(identity.shard(0), 16_384 + 8);
        assert_eq!(identity.shard(7), 16_384 + 15);
        assert!(identity.owns(16_384 + 15) && !identity.owns(16_384 + 16) && !identity.owns(8));
        let shared = SharedIdentity::new(Identity::new(3, 16_383));
        assert_eq!(shared.get(), Identity::new(3, 16_376));
        assert_eq!(shared.get().shard(7), -1);
    }
}
