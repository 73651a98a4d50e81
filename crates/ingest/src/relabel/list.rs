//! `blacklist.conf` and `whitelist.conf`: one regular expression per line, which may match anywhere in the
//! name.

use plumbago_model::rules::Pattern;

use crate::reject::Reject;

/// The patterns of one list.
#[derive(Debug, Default)]
pub(super) struct List(Vec<Line>);

/// A line with a pattern.
#[derive(Debug)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: usize,
    /// The pattern as written.
    pub(super) text: String,
    pattern: Pattern,
}

impl List {
    /// Parses a list. Unlike carbon, which skips an invalid pattern, this reports it as a problem: without
    /// the pattern, the list would let through names that it was written to stop.
    pub(super) fn parse(text: &str, problems: &mut Vec<(usize, String)>) -> Self {
        let mut lines = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let text = line.trim();
            if text.is_empty() || line.starts_with('#') {
                continue;
            }
            match Pattern::new(text) {
                Ok(pattern) => lines.push(Line { number: i + 1, text: text.to_owned(), pattern }),
                Err(error) => problems.push((i + 1, format!("pattern {text:?}: {error}"))),
            }
        }
        Self(lines)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, name: &str) -> Result<bool, Reject> {
        self.first(name).map(|line| line.is_some()).map_err(|_| Reject::Rule)
    }

    /// The first line whose pattern is found in the name. The error is an earlier line whose pattern exceeds
    /// the step limit.
    pub(super) fn first(&self, name: &str) -> Result<Option<&Line>, &Line> {
        for line in &self.0 {
            match line.pattern.is_match(name) {
                Some(true) => return Ok(Some(line)),
                Some(false) => {}
                None => return Err(line),
            }
        }
        Ok(None)
    }
}
