//! `blacklist.conf` and `whitelist.conf`: one regular expression per line, which may match anywhere in the
//! name.

use plumbago_model::rules::Pattern;

use crate::reject::Reject;

/// The patterns of one list.
#[derive(Debug, Default)]
pub(super) struct List(Vec<Pattern>);

impl List {
    /// Parses a list. Unlike carbon, which skips an invalid pattern, this reports it as a problem: without
    /// the pattern, the list would let through names that it was written to stop.
    pub(super) fn parse(text: &str, problems: &mut Vec<(usize, String)>) -> Self {
        let mut patterns = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let pattern = line.trim();
            if pattern.is_empty() || line.starts_with('#') {
                continue;
            }
            match Pattern::new(pattern) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => problems.push((i + 1, format!("pattern {pattern:?}: {error}"))),
            }
        }
        Self(patterns)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, name: &str) -> Result<bool, Reject> {
        for pattern in &self.0 {
            if pattern.is_match(name).ok_or(Reject::Rule)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
