//! An ordered list of patterns, of which every match may count.

use regex::{RegexSet, RegexSetBuilder};

use super::{Engine, Pattern, PatternError, first_line};

/// Size limit of the compiled set. Each pattern alone passed the default limit; together they may be larger.
const SET_BYTES_MAX: usize = 512 << 20;

/// Patterns in order. One pass over a name tests all patterns that need no backtracking.
#[derive(Debug, Default)]
pub(in crate::rules) struct AllMatches {
    plain: RegexSet,
    /// The position in the list of each pattern of `plain`.
    plain_positions: Vec<usize>,
    /// Patterns that need backtracking, with their positions in the list.
    backtracking: Vec<(usize, Pattern)>,
}

impl AllMatches {
    pub(in crate::rules) fn new(patterns: Vec<Pattern>) -> Result<Self, PatternError> {
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
            .build()
            .map_err(|error| PatternError(first_line(&error.to_string())))?;
        Ok(Self { plain, plain_positions, backtracking })
    }

    /// Calls `visit` with the position of each pattern that matches, in order, until it returns false. A pattern
    /// that exceeds the backtracking limit counts as no match.
    pub(in crate::rules) fn visit(&self, name: &str, mut visit: impl FnMut(usize) -> bool) {
        let found = self.plain.matches(name);
        let mut plain = found.iter().map(|at| self.plain_positions[at]).peekable();
        let mut backtracking = self.backtracking.iter().peekable();
        loop {
            let is_plain_first = match (plain.peek(), backtracking.peek()) {
                (None, None) => return,
                (Some(plain), Some((other, _))) => plain < other,
                (first, _) => first.is_some(),
            };
            let matched = if is_plain_first {
                plain.next()
            } else {
                let next = backtracking.next();
                next.filter(|(_, pattern)| pattern.is_match(name) == Some(true))
                    .map(|(position, _)| *position)
            };
            if matched.is_some_and(|position| !visit(position)) {
                return;
            }
        }
    }
}
