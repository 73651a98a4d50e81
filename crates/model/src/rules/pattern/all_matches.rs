//! An ordered list of patterns, every one of which may match.

use std::sync::atomic::{AtomicU64, Ordering};

use regex::{RegexSet, RegexSetBuilder};

use super::{Engine, Pattern, PatternError, first_line};

/// Size limit of the compiled set. Each pattern alone passed the default limit; together they may exceed it.
const SET_BYTES_MAX: usize = 512 << 20;

/// Size limit of the cache that a search fills.
const CACHE_BYTES_MAX: usize = 16 << 20;

/// Patterns in order. One pass over a name tests all patterns that need no backtracking.
#[derive(Debug, Default)]
pub(in crate::rules) struct AllMatches {
    plain: RegexSet,
    /// For each pattern of `plain`, its position in the list.
    plain_positions: Vec<usize>,
    /// Patterns that need backtracking, with their positions in the list.
    backtracking: Vec<(usize, Pattern)>,
    gave_up: AtomicU64,
}

impl AllMatches {
    pub(in crate::rules) fn new(patterns: impl IntoIterator<Item = Pattern>) -> Result<Self, PatternError> {
        let (mut plain, mut plain_positions, mut backtracking) = (Vec::new(), Vec::new(), Vec::new());
        for (position, pattern) in patterns.into_iter().enumerate() {
            match pattern.engine {
                Engine::Plain(_) => {
                    plain_positions.push(position);
                    plain.push(pattern.translated);
                }
                Engine::Backtracking(_) => backtracking.push((position, pattern)),
            }
        }
        let plain = RegexSetBuilder::new(plain)
            .size_limit(SET_BYTES_MAX)
            .dfa_size_limit(CACHE_BYTES_MAX)
            .build()
            .map_err(|error| PatternError(first_line(&error.to_string())))?;
        Ok(Self { plain, plain_positions, backtracking, gave_up: AtomicU64::new(0) })
    }

    /// Calls `visit` with the position of each pattern that matches, in order, until it returns false. A pattern
    /// that exceeds the backtracking limit counts as no match.
    pub(in crate::rules) fn visit(&self, name: &str, mut visit: impl FnMut(usize) -> bool) {
        let found = self.plain.matches(name);
        let mut plain = found.iter().map(|at| self.plain_positions[at]).peekable();
        for (position, pattern) in &self.backtracking {
            while let Some(before) = plain.next_if(|before| before < position) {
                if !visit(before) {
                    return;
                }
            }
            if self.is_match(pattern, name) && !visit(*position) {
                return;
            }
        }
        plain.all(visit);
    }

    fn is_match(&self, pattern: &Pattern, name: &str) -> bool {
        let found = pattern.is_match(name);
        self.gave_up.fetch_add(u64::from(found.is_none()), Ordering::Relaxed);
        found == Some(true)
    }

    /// Number of searches in which a pattern exceeded the backtracking limit.
    pub(in crate::rules) fn gave_up(&self) -> u64 {
        self.gave_up.load(Ordering::Relaxed)
    }
}
