//! Groups: the lists of buffers that get the points of a name. Names with the same list share a group, and the log has
//! one record for all buffers of a group.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::log::NUMBER_MAX;
use crate::matcher::Way;

/// Memory of a group without its lists, in bytes.
const GROUP_BYTES: usize = 96;
/// Memory of a cohort in the list of a group and of the group in the list of the cohort, in bytes.
pub(crate) const LISTED_BYTES: usize = 8;

/// Buffers that get the same points.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) ways: Box<[Way]>,
    /// The numbers of the cohorts that these buffers are in. A cohort is listed as often as each of its buffers.
    pub(crate) cohorts: Vec<u32>,
    /// Where the last value went, as a position among the intervals of the last cohort.
    pub(crate) at: usize,
    /// The newest segment of the log that names this group; 0 for none.
    named_in: u32,
}

/// All groups.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// Positions in `groups`, found by the list of buffers.
    by_ways: HashTable<u32>,
    /// The number of the first group in the log.
    first: u32,
    hasher: RandomState,
}

impl Groups {
    /// Numbers begin at a random value and are not reused for a long time. If damage destroys the record that
    /// names a group, the other records of the group are ignored instead of being added to another group.
    pub(crate) fn new() -> Self {
        let hasher = RandomState::new();
        let first = hasher.hash_one("first") as u32 & NUMBER_MAX;
        Self { groups: Vec::new(), by_ways: HashTable::new(), first, hasher }
    }

    /// Returns the position of the group with these buffers; `None` if there is none.
    pub(crate) fn find(&self, ways: &[Way]) -> Option<u32> {
        let hash = self.hasher.hash_one(ways);
        self.by_ways.find(hash, |at| *self.groups[*at as usize].ways == *ways).copied()
    }

    /// Adds a group. Returns its position, and the memory that it takes.
    pub(crate) fn insert(&mut self, ways: Vec<Way>, cohorts: Vec<u32>) -> (u32, usize) {
        let Self { groups, by_ways, hasher, .. } = self;
        let (at, hash) = (groups.len() as u32, hasher.hash_one(&ways[..]));
        let bytes = GROUP_BYTES + size_of_val(&*ways) + LISTED_BYTES * cohorts.len();
        groups.push(Group { ways: ways.into(), cohorts, at: 0, named_in: 0 });
        by_ways.insert_unique(hash, at, |at| hasher.hash_one(&groups[*at as usize].ways[..]));
        (at, bytes)
    }

    /// Lists the cohort `new` in a group as often as the cohort `old`. Returns how often.
    pub(crate) fn list_beside(&mut self, at: u32, old: u32, new: u32) -> usize {
        let Some(group) = self.get_mut(at) else { return 0 };
        let times = group.cohorts.iter().filter(|cohort| **cohort == old).count();
        group.cohorts.extend(std::iter::repeat_n(new, times));
        times
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut Group> {
        self.groups.get_mut(at as usize)
    }

    /// The number of a group in the log.
    #[inline]
    pub(crate) fn number(&self, at: u32) -> u32 {
        self.first.wrapping_add(at) & NUMBER_MAX
    }

    /// Removes all groups. Positions from before this call are no longer valid.
    pub(crate) fn clear(&mut self) {
        self.first = self.number(self.groups.len() as u32);
        self.groups.clear();
        self.by_ways.clear();
    }

    /// From now on, each group is named again before its next record.
    pub(crate) fn forget_log(&mut self) {
        self.groups.iter_mut().for_each(|group| group.named_in = 0);
    }
}

impl Group {
    /// Notes that this segment names the group. Returns false if it did already.
    #[inline]
    pub(crate) fn is_new_in(&mut self, segment: u32) -> bool {
        std::mem::replace(&mut self.named_in, segment) != segment
    }
}

/// The text that the log holds for a group: the numbers of its buffers.
pub(crate) fn text(ways: &[Way]) -> String {
    ways.iter().map(|way| way.buffer.to_string()).collect::<Vec<_>>().join(" ")
}

/// Reads the numbers of the buffers from such a text; `None` if it is not one that [`text`] wrote.
pub(crate) fn parse(text: &str) -> Option<Box<[u32]>> {
    text.split(' ').map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(numbers: &[u32]) -> Vec<Way> {
        numbers.iter().map(|number| Way { buffer: *number, rule: number + 1 }).collect()
    }

    #[test]
    fn the_same_list_is_one_group_until_all_are_forgotten() {
        let mut groups = Groups::new();
        let (first, bytes) = groups.insert(ways(&[1, 2]), vec![0]);
        assert!(bytes > 0);
        assert_eq!(groups.find(&ways(&[2, 1])), None);
        let (second, _) = groups.insert(ways(&[2, 1]), vec![0]);
        assert_ne!(first, second);
        assert_eq!(groups.find(&ways(&[1, 2])), Some(first));
        assert_eq!(groups.find(&ways(&[2, 1])), Some(second));
        let before = [groups.number(first), groups.number(second)];
        groups.clear();
        assert_eq!(groups.find(&ways(&[1, 2])), None);
        let (again, _) = groups.insert(ways(&[1, 2]), vec![0]);
        assert!(!before.contains(&groups.number(again)));
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        for numbers in [&[7][..], &[0, 4_000_000, 0]] {
            assert_eq!(parse(&text(&ways(numbers))).as_deref(), Some(numbers));
        }
        for damaged in ["", "1 x", "1  2", "name\n10\nsum\nname"] {
            assert_eq!(parse(damaged), None, "{damaged:?}");
        }
    }
}
