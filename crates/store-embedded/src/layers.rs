//! Adds layers and stages to the catalogue, in memory and in its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fjall::{Keyspace, PersistMode};
use plumbago_store::{ErrorKind, StoreError};

use crate::catalogue::{KEYSPACES_MAX, Kind, Layer, StageBuckets, StageKey};
use crate::errors::{host_error, write_error};
use crate::locks::{lock, read, write};
use crate::open::Open;
use crate::second_copy;
use crate::shared::Core;

/// Prefixes of the rows of the catalogue for stages and for buckets.
pub(crate) const STAGE_PREFIX: &str = "stage/";
pub(crate) const BUCKET_PREFIX: &str = "bucket/";
/// Prefix of the names of the layers' keyspaces.
pub(crate) const LAYER_PREFIX: &str = "points.";
/// Slots in a block of a coarse bucket that is past.
const PAST_SLOTS: u32 = 128;
/// A bucket is past once it ended this many seconds ago.
const PAST_AFTER: i64 = 86_400;

/// A layer that is missing: its stage, a slot of its bucket, and the length of its blocks in slots.
pub(crate) struct Missing {
    pub(crate) key: StageKey,
    pub(crate) slot: u32,
    pub(crate) block_slots: u32,
}

impl Open {
    /// Creates the layers that are missing for a write.
    pub(crate) fn create_layers(&self, core: &Core, missing: &[Missing]) -> Result<(), StoreError> {
        let _creation = lock(&self.creation);
        let past = u64::try_from(core.clock.now() - PAST_AFTER).unwrap_or(0);
        for &Missing { key, slot, block_slots } in missing {
            let stage = self.ensure_stage(core, key)?;
            let number = stage.bucket_of(slot);
            let bucket = stage.buckets.get(&number);
            let wanted = (!key.coarse).then_some(block_slots);
            if bucket.is_some_and(|bucket| bucket.live(wanted).is_some()) {
                continue;
            }
            let is_past = stage.end_of(number) * u64::from(key.stage.resolution) < past;
            // Windows that close one after the other get a row each. In a past bucket no more windows close: what is
            // written there is the history of a metric, or a rare late point.
            let block_slots = if key.coarse && is_past { block_slots.max(PAST_SLOTS) } else { block_slots };
            let kind = Kind::Fresh { block_slots, since: core.clock.now() };
            let layer = Arc::new(self.create_layer(&stage, number, kind, core.clock.now())?);
            let mut layers = bucket.map(|bucket| bucket.layers.clone()).unwrap_or_default();
            layers.push(layer);
            self.save_bucket(core, key, number, &layers)?;
            self.change_bucket(key, number, |bucket| bucket.layers = layers);
        }
        core.stats.keyspaces.set(self.fjall.keyspace_count() as f64);
        Ok(())
    }

    /// The stage, which is added to the catalogue if it is new.
    fn ensure_stage(&self, core: &Core, key: StageKey) -> Result<Arc<StageBuckets>, StoreError> {
        if let Some(stage) = read(&self.catalogue).stages.get(&key) {
            return Ok(stage.clone());
        }
        let mut catalogue = write(&self.catalogue);
        let bucket_slots = key.choose_bucket_slots(catalogue.stages.len(), core.config.block_slots);
        self.save(core, &format!("{STAGE_PREFIX}{}", key.label()), &bucket_slots.to_string())?;
        let stage = Arc::new(StageBuckets::new(key, bucket_slots));
        catalogue.stages.insert(key, stage.clone());
        Ok(stage)
    }

    /// Creates an empty layer that is not in the catalogue yet.
    pub(crate) fn create_layer(
        &self,
        stage: &StageBuckets,
        number: u32,
        kind: Kind,
        now: i64,
    ) -> Result<Layer, StoreError> {
        if self.fjall.keyspace_count() >= KEYSPACES_MAX {
            let operation = format!(
                "keep a time bucket of {}: there are {KEYSPACES_MAX} already; use fewer different retentions",
                stage.key.stage
            );
            return Err(StoreError::new(ErrorKind::Invalid, operation));
        }
        let label = stage.key.label();
        let name = (0..)
            .map(|generation: u64| format!("{LAYER_PREFIX}{label}.{number}.{generation}"))
            .find(|name| !self.fjall.keyspace_exists(name));
        let keyspace = self.layer_keyspace(&name.unwrap_or_default(), kind)?;
        self.created.fetch_add(1, Ordering::Relaxed);
        Ok(layer(keyspace, kind, stage, number, now))
    }

    /// Writes the row with the layers of a bucket, or deletes it if there are none.
    pub(crate) fn save_bucket(
        &self,
        core: &Core,
        key: StageKey,
        number: u32,
        layers: &[Arc<Layer>],
    ) -> Result<(), StoreError> {
        let row = format!("{BUCKET_PREFIX}{}/{number}", key.label());
        let value: String = layers.iter().map(|layer| layer.to_line()).collect();
        self.save(core, &row, &value)
    }

    /// Writes a row of the catalogue and syncs it.
    fn save(&self, core: &Core, row: &str, value: &str) -> Result<(), StoreError> {
        let written = if value.is_empty() { self.system.remove(row) } else { self.system.insert(row, value) };
        written.map_err(|error| write_error(format!("write catalogue row {row}"), error))?;
        core.host.sync(self, PersistMode::SyncAll).map_err(host_error)?;
        second_copy::refresh(&core.dir, &self.system, self.configs.keyspace());
        Ok(())
    }
}

/// A layer in an open keyspace.
pub(crate) fn layer(keyspace: Keyspace, kind: Kind, stage: &StageBuckets, number: u32, now: i64) -> Layer {
    let bucket_start = stage.start_of(number);
    Layer { keyspace, kind, coarse: stage.key.coarse, bucket_start, written: AtomicI64::new(now) }
}
