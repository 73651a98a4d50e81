//! An ordered list of patterns, of which the first match is used.

use super::{AllMatches, Pattern, PatternError};

/// Patterns in order.
#[derive(Debug, Default)]
pub(in crate::rules) struct FirstMatch {
    patterns: AllMatches,
    /// The position of the first pattern that matches every name. It and later patterns are not compiled.
    catch_all: Option<usize>,
}

impl FirstMatch {
    pub(in crate::rules) fn new(patterns: Vec<Pattern>) -> Result<Self, PatternError> {
        let catch_all = patterns.iter().position(Pattern::matches_all);
        let patterns = AllMatches::new(patterns.into_iter().take(catch_all.unwrap_or(usize::MAX)))?;
        Ok(Self { patterns, catch_all })
    }

    /// The position of the first pattern that matches. A pattern that exceeds the backtracking limit counts
    /// as no match.
    pub(in crate::rules) fn find(&self, name: &str) -> Option<usize> {
        let mut first = self.catch_all;
        self.patterns.visit(name, |position| {
            first = Some(position);
            false
        });
        first
    }

    /// Number of searches in which a pattern exceeded the backtracking limit.
    pub(in crate::rules) fn gave_up(&self) -> u64 {
        self.patterns.gave_up()
    }
}
