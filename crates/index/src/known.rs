//! What a search remembers about directories that it has gone through.

use hashbrown::HashTable;

use crate::words::Qualities;

/// Largest number of directories that are remembered; they take about a megabyte. When there are more, the
/// search forgets all of them. Directories that occur often are soon remembered again.
const DIRECTORIES_MAX: usize = if cfg!(test) { 20 } else { 16_384 };

/// The state with which a search enters a directory: the words that were found above it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// How well the path matches each word.
    pub(crate) qualities: Qualities,
    /// The first parts of words with dots that the end of the path matches.
    pub(crate) begun: u128,
}

/// The results of a search below a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Below {
    /// The number of matches.
    pub(crate) count: u32,
    /// The highest rank of these matches. Only the part of their paths below the directory counts.
    pub(crate) best: u32,
}

/// The remembered directories, by their shape and the state in which they were entered.
#[derive(Debug, Default)]
pub(crate) struct Known {
    entries: HashTable<(u64, State, Below)>,
    removals: u64,
}

impl Known {
    /// Forgets everything if component numbers have become invalid in the meantime, because shapes depend on
    /// them.
    pub(crate) fn keep_for(&mut self, removals: u64) {
        if self.removals != removals {
            self.removals = removals;
            self.entries.clear();
        }
    }

    #[inline]
    pub(crate) fn get(&self, shape: u64, state: State) -> Option<Below> {
        let is_it = |entry: &(u64, State, Below)| entry.0 == shape && entry.1 == state;
        self.entries.find(hash(shape, state), is_it).map(|entry| entry.2)
    }

    pub(crate) fn set(&mut self, shape: u64, state: State, below: Below) {
        if self.get(shape, state).is_some() {
            return;
        }
        if self.entries.len() >= DIRECTORIES_MAX {
            self.entries.clear();
        }
        let rehash = |entry: &(u64, State, Below)| hash(entry.0, entry.1);
        self.entries.insert_unique(hash(shape, state), (shape, state, below), rehash);
    }
}

/// Hashes a shape and a state. Shapes are already random, so this can be simple.
#[inline]
fn hash(shape: u64, state: State) -> u64 {
    let begun = state.begun as u64 ^ (state.begun >> 64) as u64;
    let state = (begun ^ u64::from(state.qualities) << 48).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    shape << 8 ^ shape ^ state.rotate_left(29)
}
