//! Where metrics are, by their ids and by their numbers in the journal: what a start looks up.

use plumbago_model::MetricId;

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
pub(crate) struct Numbers(Vec<Option<(Place, u64)>>);

impl Numbers {
    pub(crate) fn set(&mut self, number: u32, place: Place, covered: u64) {
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some((place, covered));
    }

    pub(crate) fn get(&self, number: u32) -> Option<(Place, u64)> {
        self.0.get(number as usize).copied().flatten()
    }

    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(entry) = self.0.get_mut(number as usize) {
            *entry = None;
        }
    }

    /// Has the entry in the cache before it is set.
    pub(crate) fn warm(&self, number: u32) {
        std::hint::black_box(self.get(number));
    }

    /// The first number that no metric has.
    pub(crate) fn next(&self) -> u32 {
        self.0.len().max(1) as u32
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
    fn numbers_are_known_until_forgotten() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.next(), 1);
        numbers.set(4, (0, 7), 12);
        assert_eq!((numbers.get(4), numbers.get(3), numbers.next()), (Some(((0, 7), 12)), None, 5));
        numbers.forget(4);
        assert_eq!(numbers.get(4), None);
    }
}
