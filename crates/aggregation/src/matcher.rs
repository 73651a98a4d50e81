//! Which group of buffers the points of a name go to.

use hashbrown::HashTable;
use plumbago_model::rules::AggregationRules;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::filter::{Beginnings, Unmatched};

/// Memory for names that rules take. When it is full, all are forgotten and matched again.
const KNOWN_BYTES_MAX: usize = 128 << 20;
/// Memory of a name, in bytes.
const KNOWN_BYTES: usize = 64;

/// The rules in effect.
#[derive(Debug)]
pub(crate) struct Matcher {
    pub(crate) rules: AggregationRules,
    beginnings: Option<Beginnings>,
    unmatched: Unmatched,
    seed: u64,
}

impl Matcher {
    /// `seed` must be random, so that a sender cannot choose names whose hashes collide.
    pub(crate) fn new(rules: AggregationRules, seed: u64) -> Self {
        let beginnings = rules.beginnings().as_deref().and_then(Beginnings::new);
        Self { rules, beginnings, unmatched: Unmatched::new(), seed }
    }

    /// The hash of a name that a rule may take; `None` if none does.
    #[inline]
    pub(crate) fn candidate(&self, name: &[u8]) -> Option<u128> {
        if self.beginnings.as_ref().is_some_and(|beginnings| !beginnings.contains(name)) {
            return None;
        }
        let hash = xxh3_128_with_seed(name, self.seed);
        (!self.unmatched.contains(hash)).then_some(hash)
    }

    /// Remembers that no rule takes this name.
    pub(crate) fn exclude(&self, hash: u128) {
        self.unmatched.insert(hash);
    }
}

/// A buffer that gets the points of a name: the number of the buffer and the number of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Way {
    pub(crate) buffer: u32,
    pub(crate) rule: u32,
}

/// A name that rules take.
#[derive(Debug)]
struct Entry {
    hash: u128,
    /// The position of its group.
    group: u32,
    /// Whether one of the outputs has exactly this name. If so, the points of the output replace the received ones.
    is_output: bool,
}

/// The names that rules take.
#[derive(Debug, Default)]
pub(crate) struct Known {
    entries: HashTable<Entry>,
    bytes: usize,
}

impl Known {
    /// The position of the group that gets the points of a name, and whether one of the outputs has this very
    /// name.
    #[inline]
    pub(crate) fn get(&self, hash: u128) -> Option<(u32, bool)> {
        let entry = self.entries.find(hash as u64, |entry| entry.hash == hash)?;
        Some((entry.group, entry.is_output))
    }

    pub(crate) fn insert(&mut self, hash: u128, group: u32, is_output: bool) {
        self.bytes += KNOWN_BYTES;
        let entry = Entry { hash, group, is_output };
        self.entries.insert_unique(hash as u64, entry, |entry| entry.hash as u64);
    }

    /// Adds to the counted memory the bytes of the buffers and groups that are dropped together with this
    /// list.
    pub(crate) fn note_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes > KNOWN_BYTES_MAX
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}
