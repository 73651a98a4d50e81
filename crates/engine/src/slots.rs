//! Slots of a stage, as they are read from the store and written to it.

use std::ops::Range;

use plumbago_model::{MetricId, Window};
use plumbago_store::{Column, PointStore, ReadRequest, RowCount, Run, SlotRange, StoreError, WriteBatch};

use crate::late::refold::window_at;
use crate::pieces::{Piece, SLOTS_AT_ONCE, cut, groups};
use crate::read::read_merged;
use crate::shard::downsample::MetricLayout;

/// Unknown slots in a row that a run may contain; with more, a new run begins. A run takes about as much
/// memory as a few slots, so points that are far apart, such as one a minute in a stage of one-second slots,
/// take little memory.
const GAP: u32 = 32;

/// The stored slots of one stage.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// The slot of the column's first value.
    from: u32,
    /// The slots of the column's values, in order, if they do not follow each other.
    numbers: Option<Vec<u32>>,
    column: Column,
}

impl Stored {
    /// The slots of a column whose first value is that of slot `from`.
    pub(crate) fn new(from: u32, column: Column) -> Self {
        Self { from, numbers: None, column }
    }

    /// The range from the first to the last known slot; `None` if no slot is known.
    pub(crate) fn known(&self) -> Option<Range<u32>> {
        let values = &self.column.values;
        let first = values.iter().position(|value| !value.is_nan())?;
        let last = values.iter().rposition(|value| !value.is_nan())?;
        Some(self.slot_at(first)..self.slot_at(last) + 1)
    }

    pub(crate) fn get(&self, slot: u32) -> Window {
        let place = match &self.numbers {
            Some(numbers) => numbers.binary_search(&slot).ok(),
            None => slot.checked_sub(self.from).map(|at| at as usize),
        };
        place.map_or(Window::default(), |at| window_at(&self.column, at))
    }

    /// The known slots, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Window)> {
        let slot = move |at: usize| (self.slot_at(at), window_at(&self.column, at));
        (0..self.column.values.len()).map(slot).filter(|(_, window)| window.count > 0)
    }

    fn slot_at(&self, place: usize) -> u32 {
        match &self.numbers {
            Some(numbers) => numbers[place],
            None => self.from + place as u32,
        }
    }

    /// Adds the known slots of a later piece.
    fn extend(&mut self, piece: &Self) {
        let numbers = self.numbers.get_or_insert_default();
        for (at, value) in piece.column.values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            numbers.push(piece.slot_at(at));
            self.column.values.push(*value);
            self.column.counts.extend(piece.column.counts.get(at));
        }
    }
}

/// Reads ranges. The windows of all writers are merged, and retained rows are included
/// ([`ReadRequest::include_retained`]). If the ranges are long, only the parts that have rows are read, in
/// pieces, and only known slots are kept, because a range may have years of slots of one second.
///
/// # Errors
/// If the store cannot be read.
pub(crate) async fn read_stored(
    points: &dyn PointStore,
    ranges: &[SlotRange],
) -> Result<Vec<Stored>, StoreError> {
    let slots: u64 = ranges.iter().map(|range| u64::from(range.until.saturating_sub(range.from))).sum();
    if slots <= SLOTS_AT_ONCE {
        let request = ReadRequest { ranges: ranges.to_vec(), include_retained: true, ..Default::default() };
        let columns = read_merged(points, &request).await?;
        return Ok(ranges
            .iter()
            .zip(columns)
            .map(|(range, column)| Stored::new(range.from, column))
            .collect());
    }
    let few = |range: &SlotRange| Stored { from: range.from, numbers: Some(Vec::new()), ..Stored::default() };
    let mut stored: Vec<Stored> = ranges.iter().map(few).collect();
    read_pieces(points, ranges, &mut |at, piece| stored[at].extend(&piece)).await?;
    Ok(stored)
}

/// Reads the parts of ranges that have rows, a piece at a time. The windows of all writers are merged, and
/// retained rows are included. Calls `visit` for each piece with the position of its range; the pieces of a
/// range come in order.
///
/// # Errors
/// If the store cannot be read.
pub(crate) async fn read_pieces(
    points: &dyn PointStore,
    ranges: &[SlotRange],
    visit: &mut (dyn FnMut(usize, Stored) + Send),
) -> Result<(), StoreError> {
    let occupied = points.occupied(ranges, true).await?;
    let mut pieces: Vec<Piece> = Vec::new();
    for (at, (range, parts)) in ranges.iter().zip(occupied).enumerate() {
        pieces.extend(cut(parts, (range.from, range.until)).map(|slots| (at, slots)));
    }
    for group in groups(&pieces) {
        let piece = |(at, slots): &Piece| SlotRange { from: slots.start, until: slots.end, ..ranges[*at] };
        let wanted = group.iter().map(piece).collect();
        let request = ReadRequest { ranges: wanted, include_retained: true, ..ReadRequest::default() };
        let columns = read_merged(points, &request).await?;
        for ((at, slots), column) in group.iter().zip(columns) {
            visit(*at, Stored::new(slots.start, column));
        }
    }
    Ok(())
}

/// Adds known slots of a stage to a batch, in the order of time. [`Run::whole`] is set to `whole`.
pub(crate) fn push_runs(
    layout: &MetricLayout,
    id: MetricId,
    stage: usize,
    whole: bool,
    slots: &[(u32, Window)],
    rows: &mut WriteBatch,
) {
    for run in slots.chunk_by(|a, b| b.0 - a.0 <= GAP) {
        let first = run[0].0;
        let len = (run[run.len() - 1].0 - first + 1) as usize;
        let (mut values, mut counts) = (vec![f64::NAN; len], vec![RowCount::ZERO; len]);
        for (slot, window) in run {
            values[(slot - first) as usize] = window.value;
            counts[(slot - first) as usize] = window.count.into();
        }
        let run = Run { whole, ..layout.run(id, stage, first) };
        rows.push(run, &values, (stage > 0).then_some(&counts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_slots_are_found_as_in_a_column() {
        let column = |values: &[f64], counts: &[i32]| Column {
            values: values.to_vec(),
            counts: counts.iter().map(|count| RowCount::new(*count)).collect(),
            others: None,
        };
        let whole = Stored::new(7, column(&[f64::NAN, 1.0, f64::NAN, 2.0], &[0, 3, 0, 4]));
        let mut few = Stored::default();
        few.extend(&Stored::new(7, column(&[f64::NAN, 1.0], &[0, 3])));
        few.extend(&Stored::new(10, column(&[2.0, f64::NAN], &[4, 0])));
        for slot in 0..20 {
            assert_eq!(whole.get(slot), few.get(slot), "{slot}");
        }
        assert_eq!((whole.known(), few.known()), (Some(8..11), Some(8..11)));
        assert!(whole.iter().eq(few.iter()));
        assert_eq!(
            few.iter().map(|(slot, window)| (slot, window.count)).collect::<Vec<_>>(),
            [(8, 3), (10, 4)]
        );
        assert_eq!(Stored::default().known(), None);
    }
}
