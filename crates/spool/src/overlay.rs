//! Combines pending rows with the answer of the remote store: pending slots win.

use std::collections::HashMap;

use crate::SpoolError;
use crate::queue::{Id, Spool};
use plumbago_model::MetricId;
use plumbago_store::{Column, ReadRequest, WriteBatch};

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
        let mut ranges: HashMap<Id, Vec<usize>> = HashMap::new();
        for (at, range) in request.ranges.iter().enumerate() {
            ranges.entry(range.id.0).or_default().push(at);
        }
        let mut ids: Vec<Id> = ranges.keys().copied().collect();
        ids.sort_unstable();
        let mut overlay = Self { columns: vec![None; request.ranges.len()], damaged: 0 };
        let mut batch = WriteBatch::default();
        let mut visit = |place: usize, _, bytes: &[u8]| {
            batch.clear();
            match slice::read(MetricId(ids[place]), bytes, &mut batch) {
                Ok(()) => overlay.lay(&batch, request, &ranges[&ids[place]]),
                Err(slice::Damaged) => overlay.damaged += 1,
            }
        };
        if request.include_retained {
            spool.read_retained(&ids, &mut visit)?;
        } else {
            spool.read(&ids, &mut visit)?;
        }
        Ok(overlay)
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
