//! Regular expressions in Python's dialect, searched in names.
//!
//! Most patterns mean the same to the `regex` crate, whose searches take linear time. Syntax that differs in
//! Python is translated. Look-around, back-references and possessive quantifiers need `fancy-regex`, which
//! backtracks and therefore has a limit.

mod all_matches;
mod first_match;
mod group_names;
mod python;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use fancy_regex::{RegexBuilder, RegexInput};
use regex_syntax::hir::Look;
use regex_syntax::hir::literal::Extractor;

pub(super) use all_matches::AllMatches;
pub(super) use first_match::FirstMatch;
use python::translate;

/// Steps of backtracking allowed for one search.
const BACKTRACK_LIMIT: usize = 100_000;

/// Maximum number of prefixes that [`Pattern::beginnings`] lists.
const BEGINNINGS_MAX: usize = 4096;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// The pattern in the dialect of `regex` and `fancy-regex`.
    translated: String,
    engine: Engine,
    /// The same pattern, without its empty matches. Compiled when first needed; `None` if every match is empty.
    not_empty: OnceLock<Option<Box<fancy_regex::Regex>>>,
}

#[derive(Debug, Clone)]
enum Engine {
    Plain(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// The groups of one match.
enum Groups<'t> {
    Plain(regex::Captures<'t>),
    Backtracking(fancy_regex::Captures<'t, str>),
}

impl Groups<'_> {
    fn range(&self, group: usize) -> Option<Range<usize>> {
        match self {
            Self::Plain(found) => found.get(group).map(|found| found.range()),
            Self::Backtracking(found) => found.get(group).map(|found| found.range()),
        }
    }
}

/// A search exceeded the backtracking limit.
struct LimitExceeded;

type Found<'t> = Result<Option<Groups<'t>>, LimitExceeded>;

fn backtracked<'t>(found: Result<Option<fancy_regex::Captures<'t, str>>, fancy_regex::Error>) -> Found<'t> {
    Ok(found.map_err(|_| LimitExceeded)?.map(Groups::Backtracking))
}

/// Why a text is not a regular expression. The message is the engine's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// Returns the engine's message if the text is not a regular expression, or if it is too large.
    pub fn new(python: &str) -> Result<Self, PatternError> {
        group_names::check(python).map_err(PatternError)?;
        let translation = translate(python);
        let translated = translation.text;
        if !translation.needs_backtracking
            && let Ok(regex) = regex::Regex::new(&translated)
        {
            return Ok(Self { translated, engine: Engine::Plain(regex), not_empty: OnceLock::new() });
        }
        match RegexBuilder::new(&translated).backtrack_limit(BACKTRACK_LIMIT).build() {
            Ok(regex) => {
                let engine = Engine::Backtracking(Box::new(regex));
                Ok(Self { translated, engine, not_empty: OnceLock::new() })
            }
            Err(error) => Err(PatternError(first_line(&error.to_string()))),
        }
    }

    /// Whether the pattern matches anywhere in the text. `None` if the search exceeds the backtracking limit.
    pub fn is_match(&self, text: &str) -> Option<bool> {
        match &self.engine {
            Engine::Plain(regex) => Some(regex.is_match(text)),
            Engine::Backtracking(regex) => regex.is_match(text).ok(),
        }
    }

    /// The texts of the groups of the first match, the whole match (group 0) included; a group is `None` if
    /// it did not take part. Returns `None` if there is no match, or if the search exceeds the backtracking
    /// limit.
    pub fn captures<'t>(&self, text: &'t str) -> Option<Vec<Option<&'t str>>> {
        let found = match &self.engine {
            Engine::Plain(regex) => regex.captures(text).map(Groups::Plain)?,
            Engine::Backtracking(regex) => backtracked(regex.captures(text)).ok()??,
        };
        Some((0..self.groups()).map(|group| found.range(group).map(|range| &text[range])).collect())
    }

    /// A list of prefixes. Every matching text begins with one of them. `None` if the pattern is not anchored at the
    /// start of the text, or if there are more than 4,096 prefixes.
    pub fn beginnings(&self) -> Option<Vec<String>> {
        if !matches!(self.engine, Engine::Plain(_)) {
            return None;
        }
        let pattern = regex_syntax::parse(&self.translated).ok()?;
        if !pattern.properties().look_set_prefix().contains(Look::Start) {
            return None;
        }
        let found = Extractor::new().limit_total(BEGINNINGS_MAX).extract(&pattern);
        let texts = found.literals()?.iter().map(|text| String::from_utf8(text.as_bytes().to_vec()).ok());
        texts.collect()
    }

    /// The number of groups, the whole match (group 0) included.
    pub fn groups(&self) -> usize {
        match &self.engine {
            Engine::Plain(regex) => regex.captures_len(),
            Engine::Backtracking(regex) => regex.captures_len(),
        }
    }

    /// The number of the group with this name.
    pub fn group(&self, name: &str) -> Option<usize> {
        match &self.engine {
            Engine::Plain(regex) => regex.capture_names().position(|group| group == Some(name)),
            Engine::Backtracking(regex) => regex.capture_names().position(|group| group == Some(name)),
        }
    }

    /// Replaces every match, as Python's `re.sub` does. For each match `with` appends the replacement; its
    /// second argument gives the text of a group, which is empty if the group did not take part in the match.
    /// Returns `None` if a search exceeds the backtracking limit.
    pub fn replace_all<'t>(
        &self,
        text: &'t str,
        mut with: impl FnMut(&mut String, &dyn Fn(usize) -> &'t str),
    ) -> Option<Cow<'t, str>> {
        let (mut out, mut copied, mut at) = (String::new(), 0, 0);
        let mut is_behind_empty = false;
        while at <= text.len() {
            let Some(found) = self.next_match(text, &mut at, is_behind_empty).ok()? else { break };
            let whole = found.range(0)?;
            out.push_str(&text[copied..whole.start]);
            with(&mut out, &|group| found.range(group).map_or("", |range| &text[range]));
            (copied, at) = (whole.end, whole.end);
            is_behind_empty = whole.is_empty();
        }
        if out.is_empty() && copied == 0 {
            return Some(Cow::Borrowed(text));
        }
        out.push_str(&text[copied..]);
        Some(Cow::Owned(out))
    }

    /// The next match at or after `at`. After an empty match, only a longer match may begin at the same
    /// character; otherwise the search continues at the next character.
    fn next_match<'t>(&self, text: &'t str, at: &mut usize, is_behind_empty: bool) -> Found<'t> {
        if is_behind_empty {
            if let Some(longer) = self.longer_match(text, *at)? {
                return Ok(Some(longer));
            }
            *at += text[*at..].chars().next().map_or(1, char::len_utf8);
            if *at > text.len() {
                return Ok(None);
            }
        }
        match &self.engine {
            Engine::Plain(regex) => Ok(regex.captures_at(text, *at).map(Groups::Plain)),
            Engine::Backtracking(regex) => backtracked(regex.captures_from_pos(text, *at)),
        }
    }

    /// A match that begins at `at` and is not empty.
    fn longer_match<'t>(&self, text: &'t str, at: usize) -> Found<'t> {
        let not_empty = self.not_empty.get_or_init(|| {
            let mut builder = RegexBuilder::new(&self.translated);
            builder.backtrack_limit(BACKTRACK_LIMIT).find_not_empty(true).build().ok().map(Box::new)
        });
        let Some(regex) = not_empty else { return Ok(None) };
        backtracked(regex.captures_input(RegexInput::new(text).from_pos(at).anchored(true)))
    }

    /// Whether this is one of the usual spellings of a pattern that matches every text.
    fn matches_all(&self) -> bool {
        matches!(self.translated.as_str(), ".*" | "^.*" | ".*$" | "^.*$" | "^" | "$")
    }
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}
