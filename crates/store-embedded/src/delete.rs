//! Deletes metrics and time ranges, with a tombstone in every layer for each block. A block that keeps some
//! of its slots is rewritten. Such deletions are rare, unlike expiry, which drops whole buckets.

use std::ops::Range;

use fjall::{OwnedWriteBatch, PersistMode};
use plumbago_fjall_host::pressure;
use plumbago_model::{MetricId, Stage};
use plumbago_store::{ErrorKind, RowCount, SlotRange, StoreError};

use crate::catalogue::{Layer, StageBuckets, StageKey};
use crate::deletion::Deletion;
use crate::errors::{read_error, write_error};
use crate::locks::{lock, read};
use crate::open::Open;
use crate::row::{Block, key, parse_key};
use crate::shared::Core;

/// Maximum number of changed rows in one batch.
const BATCH_ROWS: usize = 10_000;

/// Deletes the rows of the metrics' stages, both raw and coarse.
///
/// # Errors
/// If the database cannot be read or written.
pub(crate) fn delete(core: &Core, open: &Open, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
    for (id, stages) in metrics {
        for stage in stages {
            for coarse in [false, true] {
                let key = StageKey { stage: *stage, coarse };
                delete_stage(core, open, &Deletion { id: *id, key, slots: None })?;
            }
        }
    }
    Ok(())
}

/// Deletes the slots in these ranges.
///
/// # Errors
/// If the database cannot be read or written.
pub(crate) fn delete_ranges(core: &Core, open: &Open, ranges: &[SlotRange]) -> Result<(), StoreError> {
    for range in ranges.iter().filter(|range| range.from < range.until) {
        let key = StageKey { stage: range.stage, coarse: range.stage_index > 0 };
        delete_stage(core, open, &Deletion { id: range.id, key, slots: Some(range.from..range.until) })?;
    }
    Ok(())
}

fn delete_stage(core: &Core, open: &Open, deletion: &Deletion) -> Result<(), StoreError> {
    // As in a commit: no layer may be replaced meanwhile.
    let catalogue = read(&open.catalogue);
    let Some(stage) = catalogue.stages.get(&deletion.key) else { return Ok(()) };
    if let Some(deleted) = &mut *lock(&open.deleted_in_merge) {
        deleted.push(deletion.clone());
    }
    let _writer = lock(&open.writer);
    let mut layers = stage
        .buckets
        .iter()
        .flat_map(|(number, bucket)| bucket.layers.iter().map(move |layer| (*number, layer)));
    let deleted =
        layers.try_for_each(|(number, layer)| delete_from(core, open, stage, number, layer, deletion));
    core.columns.written(&deletion.id);
    deleted
}

/// Deletes from one layer of a bucket.
pub(crate) fn delete_from(
    core: &Core,
    open: &Open,
    stage: &StageBuckets,
    bucket: u32,
    layer: &Layer,
    deletion: &Deletion,
) -> Result<(), StoreError> {
    let Some(slots) = &deletion.slots else { return delete_rows(core, open, &deletion.id, layer) };
    let bucket = i64::from(stage.start_of(bucket))..i64::try_from(stage.end_of(bucket)).unwrap_or(i64::MAX);
    let from = bucket.start.max(i64::from(slots.start));
    let until = bucket.end.min(i64::from(slots.end));
    if from >= until {
        return Ok(());
    }
    let mut changes = Changes { core, open, layer, batch: None, rows: 0 };
    changes.clear(&deletion.id, &(from..until), &bucket)?;
    changes.commit()
}

/// Deletes a metric's rows of one layer.
fn delete_rows(core: &Core, open: &Open, id: &MetricId, layer: &Layer) -> Result<(), StoreError> {
    let mut doomed = Vec::new();
    for row in layer.keyspace.range(key(id, 0)..=key(id, u32::MAX)) {
        match row.key() {
            Ok(key) => doomed.push(key),
            Err(error) => {
                // Damaged rows are not visible to readers, and are deleted when their bucket expires.
                core.damage.report(&layer.keyspace, &id, &error);
                break;
            }
        }
    }
    let mut changes = Changes { core, open, layer, batch: None, rows: 0 };
    for key in doomed {
        changes.change(|batch| batch.remove(&layer.keyspace, key))?;
    }
    changes.commit()
}

/// What a row becomes when some of its slots are deleted.
enum Cleared {
    Same,
    Empty,
    Changed(Vec<u8>),
}

/// Changes to the rows of one layer, in batches.
struct Changes<'a> {
    core: &'a Core,
    open: &'a Open,
    layer: &'a Layer,
    batch: Option<OwnedWriteBatch>,
    rows: usize,
}

impl Changes<'_> {
    fn change(&mut self, change: impl FnOnce(&mut OwnedWriteBatch)) -> Result<(), StoreError> {
        let new = || self.open.fjall.batch().durability(Some(PersistMode::Buffer));
        change(self.batch.get_or_insert_with(new));
        self.rows += 1;
        if self.rows.is_multiple_of(BATCH_ROWS) { self.commit() } else { Ok(()) }
    }

    /// Makes these slots of a metric unknown; all of them are in the bucket.
    fn clear(&mut self, id: &MetricId, slots: &Range<i64>, bucket: &Range<i64>) -> Result<(), StoreError> {
        let layer = self.layer;
        let number = |slot: i64| layer.block_of(id, u32::try_from(slot).unwrap_or(u32::MAX));
        let (first, last) = (key(id, number(slots.start)), key(id, number(slots.end - 1)));
        let mut block = Block::default();
        for row in layer.keyspace.range(first..=last) {
            let (key, bytes) = match row.into_inner() {
                Ok(row) => row,
                Err(error) => {
                    let text = error.to_string();
                    let error = read_error("read rows that are deleted in part", error);
                    if error.kind != ErrorKind::Corrupt {
                        return Err(error);
                    }
                    self.core.damage.report(&layer.keyspace, id, &text);
                    return Ok(());
                }
            };
            match self.cleared(&key, &bytes, slots, bucket, &mut block) {
                Cleared::Same => {}
                Cleared::Empty => self.change(|batch| batch.remove(&layer.keyspace, key))?,
                Cleared::Changed(row) => self.change(|batch| batch.insert(&layer.keyspace, key, row))?,
            }
        }
        Ok(())
    }

    /// Deletes these slots from a row, and returns what the row becomes.
    fn cleared(
        &self,
        key: &[u8],
        row: &[u8],
        slots: &Range<i64>,
        bucket: &Range<i64>,
        block: &mut Block,
    ) -> Cleared {
        let Some((id, number)) = parse_key(key) else { return Cleared::Same };
        let len = i64::from(self.layer.block_slots());
        let start = self.layer.block_start(&id, number);
        // Slots of a block outside its bucket are unknown.
        if slots.start <= start.max(bucket.start) && (start + len).min(bucket.end) <= slots.end {
            return Cleared::Empty;
        }
        if block.decode(key, row, len as usize, self.layer.coarse).is_err() {
            // Readers skip such a row too.
            self.core.damage.report(&self.layer.keyspace, &id, &"checksum mismatch");
            return Cleared::Same;
        }
        let place = |slot: i64| (slot - start).clamp(0, len) as usize;
        let gone = place(slots.start)..place(slots.end);
        if block.values[gone.clone()].iter().all(|value| value.is_nan()) {
            return Cleared::Same;
        }
        block.values[gone.clone()].fill(f64::NAN);
        if let Some(counts) = block.counts.get_mut(gone) {
            counts.fill(RowCount::ZERO);
        }
        if block.values.iter().all(|value| value.is_nan()) {
            return Cleared::Empty;
        }
        let mut bytes = Vec::new();
        block.encode(&crate::row::key(&id, number), None, &mut bytes);
        Cleared::Changed(bytes)
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let failed = |error| write_error(format!("delete points in {}", self.core.dir.display()), error);
        batch
            .commit()
            .and_then(|()| {
                pressure::rotate_when_full(&self.layer.keyspace, self.core.config.memtable_bytes.0)
            })
            .map_err(failed)
    }
}
