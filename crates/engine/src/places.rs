//! Where metrics are, by their ids and by their numbers in the journal: what a start looks up. And the
//! numbers that no metric has.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use plumbago_model::MetricId;

use crate::shard::NUMBER_BITS;

/// A metric's place: shard and number in it.
pub(crate) type Place = (u16, u32);

/// Places by id. State rows come in the order of the ids, so that a list in the same order is gone
/// through once; a hash table would be a cache miss for each.
#[derive(Default)]
pub(crate) struct Places {
    by_id: Vec<(MetricId, Place)>,
    /// Where the last one asked for stands.
    at: usize,
}

impl Places {
    pub(crate) fn push(&mut self, id: MetricId, place: Place) {
        self.by_id.push((id, place));
    }

    /// To be called between the last `push` and the first `find`.
    pub(crate) fn sort(&mut self) {
        self.by_id.sort_unstable_by_key(|(id, _)| *id);
    }

    pub(crate) fn find(&mut self, id: &MetricId) -> Option<Place> {
        if self.by_id.get(self.at).is_none_or(|(last, _)| last > id) {
            self.at = self.by_id.partition_point(|(known, _)| known < id);
        }
        // Few metrics have no state row.
        while self.by_id.get(self.at).is_some_and(|(known, _)| known < id) {
            self.at += 1;
        }
        self.by_id.get(self.at).filter(|(known, _)| known == id).map(|(_, place)| *place)
    }
}

/// Places by number, and how far state rows cover the journal records. Numbers are dense, and records
/// come in the order of the numbers more often than not.
#[derive(Default)]
pub(crate) struct Numbers {
    places: Vec<Option<(Place, u64)>>,
    /// Numbers of metrics that are gone, and that something still names.
    retired: HashSet<u32>,
    /// State rows of metrics that are gone, and how far they cover the journal.
    orphans: HashMap<MetricId, u64>,
}

impl Numbers {
    pub(crate) fn set(&mut self, number: u32, place: Place, covered: u64) {
        let at = number as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, None);
        }
        self.places[at] = Some((place, covered));
    }

    pub(crate) fn get(&self, number: u32) -> Option<(Place, u64)> {
        self.places.get(number as usize).copied().flatten()
    }

    /// The metric is gone, but a record or a state row with its number is not: no other metric may get the
    /// number, which those would then be taken for.
    pub(crate) fn retire(&mut self, number: u32) {
        if let Some(entry) = self.places.get_mut(number as usize) {
            *entry = None;
        }
        self.reserve(number);
    }

    /// Whoever has this number keeps it; nobody gets it.
    pub(crate) fn reserve(&mut self, number: u32) {
        self.retired.insert(number);
    }

    /// The metric is gone, but its state row is not.
    pub(crate) fn orphan(&mut self, id: MetricId, number: u32, covered: u64) {
        self.reserve(number);
        self.orphans.insert(id, covered);
    }

    /// How far the state row of a metric covers the journal that is gone, or was.
    pub(crate) fn covered(&self, id: &MetricId) -> u64 {
        self.orphans.get(id).copied().unwrap_or(0)
    }

    /// Has the entry in the cache before it is set.
    pub(crate) fn warm(&self, number: u32) {
        std::hint::black_box(self.get(number));
    }

    /// The numbers that nothing has and nothing names.
    pub(crate) fn free(&self) -> FreeNumbers {
        let known = self.places.len().max(1) as u32;
        let is_taken = |number: &u32| self.get(*number).is_some() || self.retired.contains(number);
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

/// Numbers that no metric has. One that a metric of this process had is not among them: the journal may
/// name it until the next start.
#[derive(Debug)]
pub(crate) struct FreeNumbers {
    /// The lowest last.
    ranges: Vec<Range<u32>>,
}

impl FreeNumbers {
    /// The lowest; `None` when there are none left.
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
        let mut places = Places::default();
        for byte in [9, 3, 7, 1] {
            places.push(id(byte), (0, u32::from(byte)));
        }
        places.sort();
        for byte in [1, 2, 3, 9, 9, 10, 7, 1, 0, 3] {
            let known = [1, 3, 7, 9].contains(&byte);
            assert_eq!(places.find(&id(byte)), known.then_some((0, u32::from(byte))), "{byte}");
        }
        assert_eq!(Places::default().find(&id(1)), None);
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
