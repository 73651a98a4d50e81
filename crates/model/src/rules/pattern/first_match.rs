//! An ordered list of patterns, of which the first match counts.

use std::sync::atomic::{AtomicU64, Ordering};

use regex::{RegexSet, RegexSetBuilder};

use super::{Engine, Pattern, PatternError, first_line};

/// Size limit of the compiled set. Each pattern alone passed the default limit; together they may be larger.
const SET_BYTES_MAX: usize = 512 << 20;

/// Size limit of the cache that a search fills.
const CACHE_BYTES_MAX: usize = 16 << 20;

/// Patterns in order. One pass over a name tests all patterns that need no backtracking.
#[derive(Debug, Default)]
pub(in crate::rules) struct FirstMatch {
    plain: RegexSet,
    /// The position in the list of each pattern of `plain`.
    plain_positions: Vec<usize>,
    /// Patterns that need backtracking, with their positions in the list.
    backtracking: Vec<(usize, Pattern)>,
    /// The position of the first pattern that matches every name. Later patterns are not compiled.
    catch_all: Option<usize>,
    gave_up: AtomicU64,
}

impl FirstMatch {
    pub(in crate::rules) fn new(patterns: Vec<Pattern>) -> Result<Self, PatternError> {
        let catch_all = patterns.iter().position(Pattern::matches_all);
        let (mut plain, mut plain_positions, mut backtracking) = (Vec::new(), Vec::new(), Vec::new());
        for (position, pattern) in patterns.into_iter().enumerate().take(catch_all.unwrap_or(usize::MAX)) {
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
        Ok(Self { plain, plain_positions, backtracking, catch_all, gave_up: AtomicU64::new(0) })
    }

    /// The position of the first pattern that matches. A pattern that exceeds the backtracking limit counts
    /// as no match.
    pub(in crate::rules) fn find(&self, name: &str) -> Option<usize> {
        let mut best = self.catch_all;
        if !self.plain.is_empty() {
            best = self.plain.matches(name).iter().next().map(|i| self.plain_positions[i]).or(best);
        }
        for (position, pattern) in &self.backtracking {
            if best.is_some_and(|best| best < *position) {
                break;
            }
            match pattern.is_match(name) {
                Some(true) => return Some(*position),
                Some(false) => {}
                None => {
                    self.gave_up.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        best
    }

    /// How often a pattern exceeded the backtracking limit.
    pub(in crate::rules) fn gave_up(&self) -> u64 {
        self.gave_up.load(Ordering::Relaxed)
    }
}
