//! Deleting metrics: tombstones in every layer. Rare, unlike expiry, which drops buckets.

use fjall::PersistMode;
use plumbago_model::{MetricId, Stage};
use plumbago_store::StoreError;

use crate::catalogue::{Layer, StageKey};
use crate::open::Open;
use crate::row::key;
use crate::store::{Core, lock, read};
use crate::{database, pressure};

/// Tombstones of one commit at most.
const BATCH_ROWS: usize = 10_000;

/// Deletes the rows of the metrics' stages, in either role.
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
    // As for a commit: no layer is swapped meanwhile.
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
    let failed = |error| database::error(format!("delete points in {}", core.dir.display()), error);
    let mut doomed = Vec::new();
    for row in layer.keyspace.range(key(id, 0)..=key(id, u32::MAX)) {
        match row.key() {
            Ok(key) => doomed.push(key),
            Err(error) => {
                // What cannot be read cannot be seen either; it goes when its bucket does.
                core.damage.report(&layer.keyspace, &id, &error);
                break;
            }
        }
    }
    for keys in doomed.chunks(BATCH_ROWS) {
        let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
        keys.iter().for_each(|key| batch.remove(&layer.keyspace, key.clone()));
        batch.commit().and_then(|()| pressure::rotate_when_full(&layer.keyspace)).map_err(failed)?;
    }
    Ok(())
}
