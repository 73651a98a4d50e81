//! A set of numbers, found by the hash of what they stand for.

use hashbrown::HashTable;

/// The number of tables. With many small tables, growing one of them (which moves its entries) is fast.
const TABLES: usize = 256;

/// A set of numbers. The caller knows what they stand for.
#[derive(Debug)]
pub(super) struct Numbers(Vec<HashTable<u32>>);

impl Numbers {
    pub(super) fn new() -> Self {
        Self((0..TABLES).map(|_| HashTable::new()).collect())
    }

    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.0[table(hash)].find(hash, |number| is_it(*number)).copied()
    }

    /// Adds a number that is not in the set. `hash_of` returns the hash of any number in it.
    pub(super) fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        self.0[table(hash)].insert_unique(hash, number, |number| hash_of(*number));
    }

    pub(super) fn remove(&mut self, hash: u64, mut is_it: impl FnMut(u32) -> bool) {
        if let Ok(entry) = self.0[table(hash)].find_entry(hash, |number| is_it(*number)) {
            entry.remove();
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(HashTable::allocation_size).sum()
    }
}

/// The table of a hash. hashbrown uses other bits of the hash.
fn table(hash: u64) -> usize {
    (hash >> 40) as usize % TABLES
}
