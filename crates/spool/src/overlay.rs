//! Combines pending rows with the answer of the remote store: pending slots win.

use std::collections::HashMap;
use std::ops::Range;

use crate::SpoolError;
use crate::queue::{Id, Spool};
use plumbago_model::MetricId;
use plumbago_store::{Column, ReadRequest, SlotRange, WriteBatch};

use crate::calls::Table;
use crate::slice;

/// The known slots of each range of a request; `None` for ranges of which the spool has nothing.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    columns: Vec<Option<Column>>,
    /// Damaged slices.
    pub(crate) damaged: u64,
}

impl Overlay {
    /// Reads the rows that the spool has for a request.
    ///
    /// # Errors
    /// If the spool cannot be read. Damaged slices are counted and cause no error.
    pub(crate) fn read(spool: &Spool, request: &ReadRequest) -> Result<Self, SpoolError> {
        let mut overlay = Self { columns: vec![None; request.ranges.len()], damaged: 0 };
        let damaged = visit(spool, &request.ranges, request.include_retained, &mut |batch, places| {
            overlay.lay(batch, request, places);
        })?;
        Ok(Self { damaged, ..overlay })
    }

    /// Writes runs over the ranges that they touch. Later calls win.
    fn lay(&mut self, batch: &WriteBatch, request: &ReadRequest, ranges: &[usize]) {
        for run in &batch.runs {
            for at in ranges {
                let range = &request.ranges[*at];
                let table = Table { stage: range.stage, coarse: range.stage_index > 0 };
                let from = range.from.max(run.first_slot);
                let until = range.until.min(run.first_slot + run.len);
                if Table::of(run) != table || from >= until {
                    continue;
                }
                let len = (range.until - range.from) as usize;
                let column = self.columns[*at].get_or_insert_with(|| Column::unknown(len, table.coarse));
                for slot in from..until {
                    let source = (slot - run.first_slot) as usize;
                    let target = (slot - range.from) as usize;
                    let value = batch.values(run)[source];
                    if !value.is_nan() {
                        column.values[target] = value;
                        if let Some(count) = column.counts.get_mut(target) {
                            *count = batch.counts(run)[source];
                        }
                    }
                }
            }
        }
    }

    /// Returns only the slots of the spool.
    pub(crate) fn alone(self, request: &ReadRequest) -> Vec<Column> {
        let columns = self.columns.into_iter().zip(&request.ranges);
        columns.map(|(column, range)| column.unwrap_or_else(|| range.unknown())).collect()
    }

    /// Replaces slots in the remote store's answer by those of the spool.
    pub(crate) fn over(self, columns: &mut [Column]) {
        for (column, ours) in columns.iter_mut().zip(self.columns) {
            let Some(ours) = ours else { continue };
            for (at, value) in ours.values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                if let Some(place) = column.values.get_mut(at) {
                    *place = *value;
                }
                if let (Some(place), Some(count)) = (column.counts.get_mut(at), ours.counts.get(at)) {
                    *place = *count;
                }
            }
        }
    }
}

/// The slots of each range that runs of the spool touch, also of retained rows. They may overlap, in any order.
///
/// # Errors
/// If the spool cannot be read.
pub(crate) fn occupied(spool: &Spool, ranges: &[SlotRange]) -> Result<Vec<Vec<Range<u32>>>, SpoolError> {
    let mut parts: Vec<Vec<Range<u32>>> = vec![Vec::new(); ranges.len()];
    // A damaged slice is counted when it is read.
    visit(spool, ranges, true, &mut |batch, places| {
        for run in &batch.runs {
            for at in places {
                let range = &ranges[*at];
                let table = Table { stage: range.stage, coarse: range.stage_index > 0 };
                let touched = range.from.max(run.first_slot)..range.until.min(run.first_slot + run.len);
                if Table::of(run) == table && !touched.is_empty() {
                    parts[*at].push(touched);
                }
            }
        }
    })?;
    Ok(parts)
}

/// Calls `take` for each slice of the metrics of these ranges, with the positions of the metric's ranges. Returns the
/// number of damaged slices.
fn visit(
    spool: &Spool,
    ranges: &[SlotRange],
    include_retained: bool,
    take: &mut dyn FnMut(&WriteBatch, &[usize]),
) -> Result<u64, SpoolError> {
    let mut places: HashMap<Id, Vec<usize>> = HashMap::new();
    for (at, range) in ranges.iter().enumerate() {
        places.entry(range.id.0).or_default().push(at);
    }
    let mut ids: Vec<Id> = places.keys().copied().collect();
    ids.sort_unstable();
    let (mut batch, mut damaged) = (WriteBatch::default(), 0);
    let mut each = |place: usize, _: i64, bytes: &[u8]| {
        batch.clear();
        match slice::read(MetricId(ids[place]), bytes, &mut batch) {
            Ok(()) => take(&batch, &places[&ids[place]]),
            Err(slice::Damaged) => damaged += 1,
        }
    };
    if include_retained {
        spool.read_retained(&ids, &mut each)?;
    } else {
        spool.read(&ids, &mut each)?;
    }
    Ok(damaged)
}
