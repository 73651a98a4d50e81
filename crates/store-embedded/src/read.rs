//! Reads columns: the rows of newer layers replace those of older ones slot by slot.

use std::ops::Range;
use std::sync::Arc;

use plumbago_store::{Column, ErrorKind, ReadRequest, SlotRange, StoreError};

use crate::catalogue::{Layer, StageBuckets, StageKey};
use crate::columns::part;
use crate::errors::read_error;
use crate::locks;
use crate::open::Open;
use crate::row::{Block, key, overlay, overlay_counts, parse_key};
use crate::shared::Core;

/// The approximate number of rows that a request reads.
pub(crate) fn rows(request: &ReadRequest, block_slots: u32) -> u64 {
    let rows = |range: &SlotRange| {
        let per_row = if range.stage_index == 0 { block_slots } else { 1 };
        u64::from(range.until.saturating_sub(range.from) / per_row) + 1
    };
    request.ranges.iter().map(rows).sum()
}

/// Reads columns. Damaged rows are reported, and their slots are unknown.
///
/// # Errors
/// If `include_retained` is set and a row cannot be read now but may be undamaged. Callers that compute rows
/// from the answer must not mistake a failing disk for slots without points.
pub(crate) fn read(core: &Core, open: &Open, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
    let mut reader =
        Reader { core, open, stage: None, block: Block::default(), damaged: false, failure: None };
    // Such requests are for a few slots and are not repeated.
    let column = |range| if request.include_retained { reader.stored(range) } else { reader.column(range) };
    let columns = request.ranges.iter().map(column).collect();
    match reader.failure {
        Some(error) if request.include_retained => Err(error),
        _ => Ok(columns),
    }
}

struct Reader<'a> {
    core: &'a Core,
    open: &'a Open,
    /// The stage of the previous range. The next range mostly has the same stage.
    stage: Option<Arc<StageBuckets>>,
    block: Block,
    /// Whether a row of the column is damaged.
    damaged: bool,
    /// The error of a row that could not be read but may be undamaged.
    failure: Option<StoreError>,
}

impl Reader<'_> {
    /// The cached column, or else the stored one.
    fn column(&mut self, range: &SlotRange) -> Column {
        let columns = &self.core.columns;
        if range.from >= range.until {
            return range.unknown();
        }
        if let Some(column) = columns.get(range) {
            self.core.stats.columns_kept.add(1);
            return column;
        }
        let Some(wider) = columns.wider(range) else { return self.stored(range) };
        let mark = columns.mark(&range.id);
        self.damaged = false;
        let column = self.stored(&wider);
        // A column with damage is not cached, so that each read reports the damage.
        if self.damaged { part(&column, &wider, range) } else { columns.keep(mark, &wider, column, range) }
    }

    fn stored(&mut self, range: &SlotRange) -> Column {
        self.core.stats.columns_decoded.add(1);
        let coarse = range.stage_index > 0;
        let mut column = Column::unknown(range.until.saturating_sub(range.from) as usize, coarse);
        let key = StageKey { stage: range.stage, coarse };
        let Some(stage) = self.stage(key) else { return column };
        if range.from >= range.until {
            return column;
        }
        let buckets = stage.bucket_of(range.from)..=stage.bucket_of(range.until - 1);
        for (number, bucket) in stage.buckets.range(buckets) {
            let from = range.from.max(stage.start_of(*number));
            let until = stage.end_of(*number).min(u64::from(range.until)) as u32;
            for layer in &bucket.layers {
                self.layer(layer, range, from..until, &mut column);
            }
        }
        column
    }

    fn stage(&mut self, key: StageKey) -> Option<Arc<StageBuckets>> {
        if self.stage.as_ref().is_none_or(|stage| stage.key != key) {
            self.stage = locks::read(&self.open.catalogue).stages.get(&key).cloned();
        }
        self.stage.clone()
    }

    /// Overwrites slots of the column with the layer's known slots.
    fn layer(&mut self, layer: &Layer, range: &SlotRange, slots: Range<u32>, column: &mut Column) {
        let first = layer.block_of(&range.id, slots.start);
        let last = layer.block_of(&range.id, slots.end - 1);
        if first == last {
            self.single(layer, range, first, &slots, column);
            return;
        }
        let mut next = first;
        for row in layer.keyspace.range(key(&range.id, first)..=key(&range.id, last)) {
            match row.into_inner() {
                Ok((key, row)) => {
                    let Some((_, number)) = parse_key(&key) else { continue };
                    self.row(layer, range, number, &row, &slots, column);
                    next = number.saturating_add(1);
                }
                Err(_) => {
                    // The iterator ends at a damaged block. Single look-ups find the rows after it.
                    (next..=last).for_each(|number| self.single(layer, range, number, &slots, column));
                    return;
                }
            }
        }
    }

    fn single(
        &mut self,
        layer: &Layer,
        range: &SlotRange,
        number: u32,
        slots: &Range<u32>,
        column: &mut Column,
    ) {
        match layer.keyspace.get(key(&range.id, number)) {
            Ok(Some(row)) => self.row(layer, range, number, &row, slots, column),
            Ok(None) => {}
            Err(error) => {
                self.report(layer, range, number, &error);
                let error = read_error("read points", error);
                if error.kind != ErrorKind::Corrupt {
                    self.failure = Some(error);
                }
            }
        }
    }

    fn row(
        &mut self,
        layer: &Layer,
        range: &SlotRange,
        number: u32,
        row: &[u8],
        slots: &Range<u32>,
        column: &mut Column,
    ) {
        let key = key(&range.id, number);
        if self.block.decode(&key, row, layer.block_slots() as usize, layer.coarse).is_err() {
            self.report(layer, range, number, &"checksum mismatch");
            return;
        }
        // The requested slots of the block, and their position in the column.
        let start = layer.block_start(&range.id, number);
        let from = start.max(i64::from(slots.start));
        let until = (start + i64::from(layer.block_slots())).min(i64::from(slots.end));
        if from >= until {
            return;
        }
        let part = (from - start) as usize..(until - start) as usize;
        let at = (from - i64::from(range.from)) as usize;
        let values = &self.block.values[part.clone()];
        overlay(&mut column.values[at..], values);
        if layer.coarse {
            overlay_counts(&mut column.counts[at..], values, &self.block.counts[part]);
        }
    }

    fn report(&mut self, layer: &Layer, range: &SlotRange, number: u32, why: &dyn std::fmt::Display) {
        let start = layer.block_start(&range.id, number).max(0) * i64::from(range.stage.resolution);
        let what =
            format_args!("block of {} in stage {} from second {start} on", range.id, range.stage).to_string();
        self.core.damage.report(&layer.keyspace, &what, why);
        self.damaged = true;
    }
}
