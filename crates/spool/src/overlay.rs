//! Combines pending rows with the answer of the remote store: pending slots win, unless the remote store has a later
//! value of a slot.

use std::collections::HashMap;
use std::ops::Range;

use crate::SpoolError;
use crate::queue::{Id, Spool};
use plumbago_model::MetricId;
use plumbago_store::{Column, ReadRequest, SlotRange, WriteBatch};

use crate::calls::Table;
use crate::slice;

/// The slots of a range that the spool has.
#[derive(Debug, Clone)]
struct Pending {
    column: Column,
    /// The timestamp of each known slot, in microseconds since the epoch.
    times: Vec<i64>,
}

/// The known slots of each range of a request; `None` for ranges of which the spool has nothing.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    columns: Vec<Option<Pending>>,
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
        let damaged =
            visit(spool, &request.ranges, request.include_retained, &mut |batch, timestamp_us, places| {
                overlay.lay(batch, timestamp_us, request, places);
            })?;
        Ok(Self { damaged, ..overlay })
    }

    /// Writes runs over the ranges that they touch. The value with the later timestamp wins, because deferred
    /// slices do not come in the order of commits. If timestamps are equal, the value of the later call wins.
    fn lay(&mut self, batch: &WriteBatch, timestamp_us: i64, request: &ReadRequest, ranges: &[usize]) {
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
                let empty =
                    || Pending { column: Column::unknown(len, table.coarse), times: vec![i64::MIN; len] };
                let Pending { column, times } = self.columns[*at].get_or_insert_with(empty);
                for slot in from..until {
                    let source = (slot - run.first_slot) as usize;
                    let target = (slot - range.from) as usize;
                    let value = batch.values(run)[source];
                    if !value.is_nan() && timestamp_us >= times[target] {
                        times[target] = timestamp_us;
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
        columns.map(|(ours, range)| ours.map_or_else(|| range.unknown(), |ours| ours.column)).collect()
    }

    /// Returns the slots whose value in the remote store may be newer than the one in the spool: the values differ, and
    /// the one in the spool is older than `before_us` (microseconds since the epoch). A deferred slot may wait for
    /// hours, while a later value of the same slot, of this writer or of another one, arrives at once.
    ///
    /// For each range with such slots, the result has the index of the range and the part that contains them.
    pub(crate) fn doubtful(
        &self,
        request: &ReadRequest,
        remote: &[Column],
        before_us: i64,
    ) -> Vec<(usize, SlotRange)> {
        let mut parts = Vec::new();
        for (at, (ours, theirs)) in self.columns.iter().zip(remote).enumerate() {
            let Some(ours) = ours else { continue };
            let differs = |slot: &usize| ours.is_older(*slot, before_us) && ours.differs(theirs, *slot);
            let part = part(&request.ranges[at], (0..ours.times.len()).filter(differs));
            parts.extend(part.map(|part| (at, part)));
        }
        parts
    }

    /// The parts of ranges in which the spool's slots are older than `before_us` (microseconds since the epoch): the
    /// index of each range, and the part.
    pub(crate) fn older(&self, request: &ReadRequest, before_us: i64) -> Vec<(usize, SlotRange)> {
        let mut parts = Vec::new();
        for (at, ours) in self.columns.iter().enumerate() {
            let Some(ours) = ours else { continue };
            let is_older = |slot: &usize| ours.is_older(*slot, before_us);
            let part = part(&request.ranges[at], (0..ours.times.len()).filter(is_older));
            parts.extend(part.map(|part| (at, part)));
        }
        parts
    }

    /// Removes the slots for which the remote store has a later value. `times` are the times of the remote
    /// store's slots in each part, as `RemotePoints::written_at` returns them. Returns whether there were
    /// such slots.
    pub(crate) fn yield_to(
        &mut self,
        request: &ReadRequest,
        parts: &[(usize, SlotRange)],
        times: &[Vec<i64>],
    ) -> bool {
        let mut has_later = false;
        for ((at, part), times) in parts.iter().zip(times) {
            let Some(Some(ours)) = self.columns.get_mut(*at) else { continue };
            let first = (part.from - request.ranges[*at].from) as usize;
            for (slot, written_us) in (first..).zip(times) {
                if ours.times.get(slot).is_some_and(|ours_us| ours_us < written_us) {
                    has_later |= !ours.column.values[slot].is_nan();
                    ours.column.values[slot] = f64::NAN;
                }
            }
        }
        has_later
    }

    /// Replaces slots in the remote store's answer by those of the spool.
    pub(crate) fn over(self, columns: &mut [Column]) {
        for (column, ours) in columns.iter_mut().zip(self.columns) {
            let Some(Pending { column: ours, .. }) = ours else { continue };
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

/// The part of a range from the first to the last of these positions in it; `None` if there are none.
fn part(range: &SlotRange, mut positions: impl DoubleEndedIterator<Item = usize>) -> Option<SlotRange> {
    let first = positions.next()?;
    let last = positions.next_back().unwrap_or(first);
    Some(SlotRange { from: range.from + first as u32, until: range.from + last as u32 + 1, ..*range })
}

/// For each range, the slots that runs in the spool touch. With `include_retained`, retained rows are
/// included. The parts of a range may overlap and are in any order.
///
/// # Errors
/// If the spool cannot be read.
pub(crate) fn occupied(
    spool: &Spool,
    ranges: &[SlotRange],
    include_retained: bool,
) -> Result<Vec<Vec<Range<u32>>>, SpoolError> {
    let mut parts: Vec<Vec<Range<u32>>> = vec![Vec::new(); ranges.len()];
    // A damaged slice is counted when it is read.
    visit(spool, ranges, include_retained, &mut |batch, _, places| {
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

/// Calls `take` for each slice of the metrics of these ranges, with its timestamp in microseconds and the positions of the
/// metric's ranges. Returns the number of damaged slices.
fn visit(
    spool: &Spool,
    ranges: &[SlotRange],
    include_retained: bool,
    take: &mut dyn FnMut(&WriteBatch, i64, &[usize]),
) -> Result<u64, SpoolError> {
    let mut places: HashMap<Id, Vec<usize>> = HashMap::new();
    for (at, range) in ranges.iter().enumerate() {
        places.entry(range.id.0).or_default().push(at);
    }
    let mut ids: Vec<Id> = places.keys().copied().collect();
    ids.sort_unstable();
    let (mut batch, mut damaged) = (WriteBatch::default(), 0);
    let mut each = |place: usize, timestamp_us: i64, bytes: &[u8]| {
        batch.clear();
        match slice::read(MetricId(ids[place]), bytes, &mut batch) {
            Ok(()) => take(&batch, timestamp_us, &places[&ids[place]]),
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

impl Pending {
    /// Whether the spool has a value of the slot that was committed before `before_us` (microseconds since
    /// the epoch).
    fn is_older(&self, slot: usize, before_us: i64) -> bool {
        !self.column.values[slot].is_nan() && self.times[slot] < before_us
    }

    /// Whether the spool and the remote store both have the slot, with different values or counts.
    fn differs(&self, remote: &Column, slot: usize) -> bool {
        let Some(theirs) = remote.values.get(slot) else { return false };
        let ours = self.column.values[slot];
        let is_same_count = self.column.counts.get(slot) == remote.counts.get(slot);
        !ours.is_nan() && !theirs.is_nan() && (ours.to_bits() != theirs.to_bits() || !is_same_count)
    }
}
