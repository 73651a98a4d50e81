//! What is asked of a tag: `tag=value`, `tag!=value`, `tag=~regex`, `tag!=~regex`.

use std::collections::HashSet;
use std::sync::Arc;

use plumbago_model::rules::{Pattern, PatternError};

/// An expression that is said of one tag. A series without the tag has the empty value.
#[derive(Debug, Clone)]
pub struct TagExpression {
    pub(super) tag: String,
    pub(super) test: Test,
}

/// What a value must be.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Is(String),
    IsNot(String),
    Matches(Regex),
    MatchesNot(Regex),
}

/// A regular expression, with what it demands of the beginning of a text, as far as that is known.
#[derive(Debug, Clone)]
pub(crate) struct Regex {
    pattern: Pattern,
    /// In order; none of them begins another.
    pub(super) beginnings: Option<Arc<[String]>>,
    /// All values that match, once they were tried.
    pub(super) known: Option<Arc<HashSet<Arc<str>>>>,
}

/// Why tags were not searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// The text is no expression.
    #[error("Invalid tagspec {0}")]
    Expression(String),
    /// All expressions let series pass that have none of the tags.
    #[error("At least one tagspec must not match the empty string")]
    AllMatchEmpty,
    /// A regular expression cannot be read.
    #[error("{0:?} is no regular expression: {1}")]
    Regex(String, PatternError),
    /// A regular expression that backtracks without end.
    #[error("a regular expression takes too long")]
    RegexTime,
    /// More results than [`crate::FindLimits::results_max`].
    #[error("more than {0} series match (limit of results); narrow the expressions")]
    TooManyResults(usize),
    /// More work than [`crate::FindLimits::visited_max`].
    #[error("more than {0} values and series to look at (limit of visited nodes); narrow the expressions")]
    TooManyVisits(usize),
}

impl TagExpression {
    /// Reads an expression as graphite-web does.
    pub fn parse(text: &str) -> Result<Self, TagError> {
        let invalid = || TagError::Expression(text.to_owned());
        let at = text.find([';', '!', '=']).filter(|at| *at > 0).ok_or_else(invalid)?;
        let (tag, rest) = text.split_at(at);
        let (negated, rest) = rest.strip_prefix('!').map_or((false, rest), |rest| (true, rest));
        let rest = rest.strip_prefix('=').ok_or_else(invalid)?;
        if rest.contains(';') {
            return Err(invalid());
        }
        let test = match (rest.strip_prefix('~'), negated) {
            (None, false) => Test::Is(rest.to_owned()),
            (None, true) => Test::IsNot(rest.to_owned()),
            (Some(regex), negated) => {
                let anchored = anchored(regex)?;
                // Where the empty value passes, graphite-web asks for a match at the start of all values,
                // elsewhere the pattern is searched: `^a|b` differs.
                let passes_empty = is_match(&anchored, "")? != negated;
                let pattern = if passes_empty && regex.starts_with('^') {
                    compiled(regex, &format!("^(?:{regex})"))?
                } else {
                    anchored
                };
                if negated { Test::MatchesNot(pattern.into()) } else { Test::Matches(pattern.into()) }
            }
        };
        Ok(Self { tag: tag.to_owned(), test })
    }

    /// Its regular expression, when it has one.
    pub(crate) fn regex_mut(&mut self) -> Option<&mut Regex> {
        match &mut self.test {
            Test::Matches(regex) | Test::MatchesNot(regex) => Some(regex),
            Test::Is(_) | Test::IsNot(_) => None,
        }
    }

    /// The tag that it is about.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The expression that a series has the tag at all.
    pub(super) fn has(tag: &str) -> Self {
        Self { tag: tag.to_owned(), test: Test::IsNot(String::new()) }
    }

    /// True when a series without the tag passes.
    pub(super) fn passes_empty(&self) -> Result<bool, TagError> {
        self.test.passes("")
    }
}

impl Test {
    pub(super) fn passes(&self, value: &str) -> Result<bool, TagError> {
        Ok(match self {
            Self::Is(wanted) => value == wanted,
            Self::IsNot(other) => value != other,
            Self::Matches(regex) => regex.is_match(value)?,
            Self::MatchesNot(regex) => !regex.is_match(value)?,
        })
    }
}

impl Regex {
    pub(crate) fn is_match(&self, value: &str) -> Result<bool, TagError> {
        match &self.known {
            Some(known) if !value.is_empty() => Ok(known.contains(value)),
            _ => is_match(&self.pattern, value),
        }
    }

    /// What every value begins with that matches: one of these.
    pub(crate) fn beginnings(&self) -> Vec<String> {
        self.beginnings.as_ref().map_or_else(|| vec![String::new()], |texts| texts.to_vec())
    }

    /// From now on exactly these values match.
    pub(crate) fn set_known(&mut self, values: HashSet<Arc<str>>) {
        self.known = Some(Arc::new(values));
    }
}

impl From<Pattern> for Regex {
    fn from(pattern: Pattern) -> Self {
        let mut beginnings = pattern.beginnings();
        if let Some(texts) = &mut beginnings {
            texts.sort_unstable();
            texts.dedup_by(|later, earlier| later.starts_with(earlier.as_str()));
        }
        Self { pattern, beginnings: beginnings.map(Arc::from), known: None }
    }
}

/// A regular expression that is met at the start of a text, as graphite-web anchors it.
pub(super) fn anchored(regex: &str) -> Result<Pattern, TagError> {
    if regex.starts_with('^') { compiled(regex, regex) } else { compiled(regex, &format!("^({regex})")) }
}

pub(super) fn is_match(pattern: &Pattern, text: &str) -> Result<bool, TagError> {
    pattern.is_match(text).ok_or(TagError::RegexTime)
}

fn compiled(shown: &str, regex: &str) -> Result<Pattern, TagError> {
    Pattern::new(regex).map_err(|error| TagError::Regex(shown.to_owned(), error))
}
