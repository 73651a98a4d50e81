//! A cheap test that rules out most names that no rule takes.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of names that are remembered, in sets of eight that fill one cache line each.
const NAMES: usize = 1 << 21;
/// The number of names in the table that is asked first. It is small enough for a processor's second cache.
const NEAR_NAMES: usize = 1 << 15;
const WAYS: usize = 8;
/// Number of bytes at the beginning of a name that are compared.
const BEGIN_BYTES: usize = 8;

/// Names that no rule takes, remembered by a hash of 128 bits. Its memory is fixed: a new name may replace another.
#[derive(Debug)]
pub(crate) struct Unmatched {
    near: Table,
    /// Names whose set in `near` is full.
    far: Table,
}

#[derive(Debug)]
struct Table(Box<[AtomicU64]>);

impl Unmatched {
    pub(crate) fn new() -> Self {
        Self { near: Table::new(NEAR_NAMES), far: Table::new(NAMES) }
    }

    #[inline]
    pub(crate) fn contains(&self, hash: u128) -> bool {
        let mark = mark(hash);
        let (mut found, mut is_full) = (false, true);
        for slot in self.near.set(hash) {
            let known = slot.load(Ordering::Relaxed);
            found |= known == mark;
            is_full &= known != 0;
        }
        found || is_full && self.far.set(hash).iter().any(|slot| slot.load(Ordering::Relaxed) == mark)
    }

    pub(crate) fn insert(&self, hash: u128) {
        let is_free = |slot: &&AtomicU64| slot.load(Ordering::Relaxed) == 0;
        let far = self.far.set(hash);
        let free = self.near.set(hash).iter().find(is_free).or_else(|| far.iter().find(is_free));
        let slot = free.unwrap_or(&far[(hash >> 32) as usize % WAYS]);
        slot.store(mark(hash), Ordering::Relaxed);
    }
}

impl Table {
    fn new(names: usize) -> Self {
        Self((0..names).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn set(&self, hash: u128) -> &[AtomicU64] {
        let at = hash as usize % (self.0.len() / WAYS) * WAYS;
        &self.0[at..at + WAYS]
    }
}

/// Zero marks an empty slot.
#[inline]
fn mark(hash: u128) -> u64 {
    (hash >> 64) as u64 | 1
}

/// The first bytes of all names that a rule can take.
#[derive(Debug)]
pub(crate) struct Beginnings {
    mask: u64,
    /// Sorted in ascending order.
    known: Vec<u64>,
    /// A bit for each hash of a known beginning. Most other beginnings need no search because their bit is
    /// not set.
    bits: [u64; 16],
}

impl Beginnings {
    /// `None` if one of the texts is empty: then every name can match.
    pub(crate) fn new(texts: &[String]) -> Option<Self> {
        let shortest = texts.iter().map(String::len).min().unwrap_or(BEGIN_BYTES);
        if shortest == 0 {
            return None;
        }
        let mask = u64::MAX >> (64 - 8 * shortest.min(BEGIN_BYTES));
        let mut known: Vec<u64> = texts.iter().map(|text| first_bytes(text.as_bytes()) & mask).collect();
        known.sort_unstable();
        known.dedup();
        let mut bits = [0; 16];
        for begin in &known {
            let (word, bit) = place(*begin);
            bits[word] |= bit;
        }
        Some(Self { mask, known, bits })
    }

    #[inline]
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        let begin = first_bytes(name) & self.mask;
        let (word, bit) = place(begin);
        self.bits[word] & bit != 0 && self.known.binary_search(&begin).is_ok()
    }
}

#[inline]
fn place(begin: u64) -> (usize, u64) {
    let hash = begin.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

#[inline]
fn first_bytes(name: &[u8]) -> u64 {
    match name.first_chunk::<BEGIN_BYTES>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => name.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_remembered_until_others_need_its_place() {
        let unmatched = Unmatched::new();
        let hash = |n: u128| n << 64 | 5;
        assert!(!unmatched.contains(hash(2)));
        // One set of each table has room for these.
        let known = 2 * WAYS as u128;
        for n in 1..=known {
            unmatched.insert(hash(2 * n));
        }
        assert!((1..=known).all(|n| unmatched.contains(hash(2 * n))));
        unmatched.insert(hash(1000));
        assert!(unmatched.contains(hash(1000)));
        assert!(!unmatched.contains(hash(1000) + 1));
        assert_eq!((1..=known).filter(|n| !unmatched.contains(hash(2 * n))).count(), 1);
    }

    #[test]
    fn beginnings_tell_names_apart() {
        let texts = ["web.".to_owned(), "database.x".to_owned()];
        let beginnings = Beginnings::new(&texts).unwrap();
        for (name, expected) in
            [("web.1", true), ("web", false), ("data", true), ("xweb.1", false), ("", false), ("weba", false)]
        {
            assert_eq!(beginnings.contains(name.as_bytes()), expected, "{name}");
        }
        assert!(Beginnings::new(&[String::new()]).is_none());
        assert!(!Beginnings::new(&[]).unwrap().contains(b"any"));
    }
}
