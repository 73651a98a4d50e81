//! Look-ups during a start: heads by metric id and by metric number, and the free numbers for new metrics.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use plumbago_model::MetricId;

use crate::shard::NUMBER_BITS;

/// A head: its shard and its number there.
pub(crate) type HeadAddress = (u16, u32);

/// Whether a metric can have this number.
pub(crate) fn is_number(number: &u32) -> bool {
    *number != 0 && number >> NUMBER_BITS == 0
}

/// Heads by metric id. State rows come in the order of ids, so one pass over a sorted list finds all of them.
/// A hash table would cause a cache miss for each.
#[derive(Default)]
pub(crate) struct HeadAddresses {
    by_id: Vec<(MetricId, HeadAddress)>,
    /// The position of the last look-up.
    at: usize,
}

impl HeadAddresses {
    pub(crate) fn push(&mut self, id: MetricId, place: HeadAddress) {
        self.by_id.push((id, place));
    }

    /// Sorts the list. Call this between the last `push` and the first `find`.
    pub(crate) fn sort(&mut self) {
        self.by_id.sort_unstable_by_key(|(id, _)| *id);
    }

    /// The metrics in a range of ids; both ends belong to it.
    pub(crate) fn between(&self, from: &MetricId, to: &MetricId) -> &[(MetricId, HeadAddress)] {
        let start = self.by_id.partition_point(|(id, _)| id < from);
        let end = self.by_id.partition_point(|(id, _)| id <= to);
        self.by_id.get(start..end).unwrap_or_default()
    }

    pub(crate) fn find(&mut self, id: &MetricId) -> Option<HeadAddress> {
        if self.by_id.get(self.at).is_none_or(|(last, _)| last > id) {
            self.at = self.by_id.partition_point(|(known, _)| known < id);
        }
        // This takes few steps, because nearly all metrics have a state row.
        while self.by_id.get(self.at).is_some_and(|(known, _)| known < id) {
            self.at += 1;
        }
        self.by_id.get(self.at).filter(|(known, _)| known == id).map(|(_, place)| *place)
    }
}

/// Heads by metric number, with the journal sequence that their state rows cover. The numbers are dense, so a
/// list is enough.
#[derive(Default)]
pub(crate) struct Numbers {
    places: Vec<Option<(HeadAddress, u64)>>,
    /// Numbers of deleted metrics that still occur in records or state rows.
    retired: HashSet<u32>,
    /// State rows of deleted metrics, and the journal sequence that they cover.
    orphans: HashMap<MetricId, u64>,
    /// The same sequences as in `orphans`, by metric number.
    orphan_numbers: HashMap<u32, u64>,
}

impl Numbers {
    pub(crate) fn set(&mut self, number: u32, place: HeadAddress, covered: u64) {
        let at = number as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, None);
        }
        self.places[at] = Some((place, covered));
    }

    pub(crate) fn get(&self, number: u32) -> Option<(HeadAddress, u64)> {
        self.places.get(number as usize).copied().flatten()
    }

    /// Removes a deleted metric. Its number stays reserved, because otherwise records or state rows with this
    /// number would be attributed to another metric.
    pub(crate) fn retire(&mut self, number: u32) {
        if let Some(entry) = self.places.get_mut(number as usize) {
            *entry = None;
        }
        self.reserve(number);
    }

    /// Makes sure that no new metric gets this number.
    pub(crate) fn reserve(&mut self, number: u32) {
        self.retired.insert(number);
    }

    /// Adds a state row whose metric was deleted.
    pub(crate) fn orphan(&mut self, id: MetricId, number: u32, covered: u64) {
        self.reserve(number);
        self.orphans.insert(id, covered);
        self.orphan_numbers.insert(number, covered);
    }

    /// The journal sequence that the state row of a deleted metric covers; 0 without such a row. The metric may
    /// have been created again.
    pub(crate) fn covered(&self, id: &MetricId) -> u64 {
        self.orphans.get(id).copied().unwrap_or(0)
    }

    /// Whether a deleted metric with this number has a state row that covers the record.
    pub(crate) fn orphan_covers(&self, number: u32, sequence: u64) -> bool {
        self.orphan_numbers.get(&number).is_some_and(|covered| sequence <= *covered)
    }

    /// All metrics with a number.
    pub(crate) fn known(&self) -> impl Iterator<Item = (u32, HeadAddress)> {
        let numbered = (0..).zip(&self.places);
        numbered.filter_map(|(number, entry)| entry.as_ref().map(|(place, _)| (number, *place)))
    }

    /// Whether the number is not free.
    pub(crate) fn is_taken(&self, number: u32) -> bool {
        self.get(number).is_some() || self.retired.contains(&number)
    }

    /// Loads an entry into the cache before it is set.
    pub(crate) fn warm(&self, number: u32) {
        std::hint::black_box(self.get(number));
    }

    /// The numbers for new metrics.
    pub(crate) fn free(&self) -> FreeNumbers {
        let known = self.places.len().max(1) as u32;
        let is_taken = |number: &u32| self.is_taken(*number);
        let mut beyond: Vec<u32> = self.retired.iter().copied().filter(|number| *number >= known).collect();
        beyond.sort_unstable();
        let (mut ranges, mut from) = (Vec::new(), 1);
        for taken in (1..known).filter(is_taken).chain(beyond).chain([1 << NUMBER_BITS]) {
            if from < taken {
                ranges.push(from..taken);
            }
            from = taken + 1;
        }
        ranges.reverse();
        FreeNumbers { ranges }
    }
}

/// Numbers for new metrics. The number of a metric deleted by this process is not among them before the next
/// start, because the journal may still have records with it.
#[derive(Debug)]
pub(crate) struct FreeNumbers {
    /// The free numbers as ranges, in descending order.
    ranges: Vec<Range<u32>>,
}

impl FreeNumbers {
    /// Makes the free numbers from ranges, which must be in descending order.
    pub(crate) fn of(ranges: Vec<Range<u32>>) -> Self {
        Self { ranges }
    }

    /// The ranges, in descending order.
    pub(crate) fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// How many numbers are left.
    pub(crate) fn left(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.end.saturating_sub(range.start))).sum()
    }

    /// Takes the lowest number; `None` if there is none left.
    pub(crate) fn take_lowest(&mut self) -> Option<u32> {
        let range = self.ranges.last_mut()?;
        let number = range.next();
        if range.start >= range.end {
            self.ranges.pop();
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> MetricId {
        MetricId([byte; 16])
    }

    #[test]
    fn places_are_found_in_any_order() {
        let mut places = HeadAddresses::default();
        for byte in [9, 3, 7, 1] {
            places.push(id(byte), (0, u32::from(byte)));
        }
        places.sort();
        for byte in [1, 2, 3, 9, 9, 10, 7, 1, 0, 3] {
            let known = [1, 3, 7, 9].contains(&byte);
            assert_eq!(places.find(&id(byte)), known.then_some((0, u32::from(byte))), "{byte}");
        }
        assert_eq!(HeadAddresses::default().find(&id(1)), None);
    }

    #[test]
    fn numbers_are_known_until_retired() {
        let mut numbers = Numbers::default();
        numbers.set(4, (0, 7), 12);
        assert_eq!((numbers.get(4), numbers.get(3)), (Some(((0, 7), 12)), None));
        numbers.retire(4);
        assert_eq!(numbers.get(4), None);
    }

    #[test]
    fn free_numbers_are_those_that_nothing_names() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.free().take_lowest(), Some(1));
        [1, 2, 5, 6].into_iter().for_each(|number| numbers.set(number, (0, 0), 0));
        numbers.retire(5);
        numbers.retire(8);
        let mut free = numbers.free();
        let taken: Vec<u32> = std::iter::from_fn(|| free.take_lowest()).take(5).collect();
        assert_eq!(taken, [3, 4, 7, 9, 10]);
    }

    #[test]
    fn numbers_end_before_they_run_into_the_kinds_of_records() {
        let mut numbers = Numbers::default();
        numbers.retire((1 << NUMBER_BITS) - 3);
        let mut free = FreeNumbers { ranges: numbers.free().ranges[..1].to_vec() };
        assert_eq!(
            (free.take_lowest(), free.take_lowest(), free.take_lowest()),
            (Some((1 << 28) - 2), Some((1 << 28) - 1), None)
        );
    }
}
