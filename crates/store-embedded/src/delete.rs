//! Deleting metrics, by tombstones in every layer. Rare, unlike expiry, which drops whole buckets.

use fjall::PersistMode;
use plumbago_fjall_host::pressure;
use plumbago_model::{MetricId, Stage};
use plumbago_store::StoreError;

use crate::catalogue::{Layer, StageKey};
use crate::errors::write_error;
use crate::open::Open;
use crate::row::key;
use crate::store::{Core, lock, read};

/// Maximum number of tombstones in one batch.
const BATCH_ROWS: usize = 10_000;

/// Deletes the rows of the metrics' stages, both raw and coarse.
///
/// # Errors
/// If the database cannot be read or written.
pub(crate) fn delete(core: &Core, open: &Open, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
    for (id, stages) in metrics {
        for stage in stages {
            for coarse in [false, true] {
                delete_stage(core, open, id, StageKey { stage: *stage, coarse })?;
            }
        }
    }
    Ok(())
}

fn delete_stage(core: &Core, open: &Open, id: &MetricId, key: StageKey) -> Result<(), StoreError> {
    // As in a commit: no layer is replaced meanwhile.
    let catalogue = read(&open.catalogue);
    let Some(stage) = catalogue.stages.get(&key) else { return Ok(()) };
    if let Some(deleted) = &mut *lock(&open.deleted_in_merge) {
        deleted.push((*id, key));
    }
    let _writer = lock(&open.writer);
    let mut layers = stage.buckets.values().flat_map(|bucket| &bucket.layers);
    let deleted = layers.try_for_each(|layer| delete_rows(core, open, id, layer));
    core.columns.written(id);
    deleted
}

/// Deletes a metric's rows of one layer.
pub(crate) fn delete_rows(core: &Core, open: &Open, id: &MetricId, layer: &Layer) -> Result<(), StoreError> {
    let failed = |error| write_error(format!("delete points in {}", core.dir.display()), error);
    let mut doomed = Vec::new();
    for row in layer.keyspace.range(key(id, 0)..=key(id, u32::MAX)) {
        match row.key() {
            Ok(key) => doomed.push(key),
            Err(error) => {
                // Damaged rows are not visible to readers either, and go when their bucket expires.
                core.damage.report(&layer.keyspace, &id, &error);
                break;
            }
        }
    }
    for keys in doomed.chunks(BATCH_ROWS) {
        let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
        keys.iter().for_each(|key| batch.remove(&layer.keyspace, key.clone()));
        batch
            .commit()
            .and_then(|()| pressure::rotate_when_full(&layer.keyspace, core.config.memtable_bytes.0))
            .map_err(failed)?;
    }
    Ok(())
}
