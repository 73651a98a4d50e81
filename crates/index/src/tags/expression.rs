//! Tag expressions: `tag=value`, `tag!=value`, `tag=~regex`, `tag!=~regex`.

use std::collections::HashSet;
use std::sync::Arc;

use plumbago_model::rules::{Pattern, PatternError};

/// A condition on one tag. For a series without the tag its value is empty.
#[derive(Debug, Clone)]
pub struct TagExpression {
    pub(super) tag: String,
    pub(super) test: Test,
}

/// The condition on the value.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Is(String),
    IsNot(String),
    Matches(Regex),
    MatchesNot(Regex),
}

/// A compiled regular expression, with the prefixes of its matches if they are known.
#[derive(Debug, Clone)]
pub(crate) struct Regex {
    pattern: Pattern,
    /// Sorted; none of them is a prefix of another.
    pub(super) beginnings: Option<Arc<[String]>>,
    /// All values that match, after the expression has been tried on them.
    pub(super) known: Option<Arc<HashSet<Arc<str>>>>,
}

/// Why a search by tags failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// The text is not a tag expression.
    #[error("Invalid tagspec {0}")]
    Expression(String),
    /// All expressions match series that have none of the tags.
    #[error("At least one tagspec must not match the empty string")]
    AllMatchEmpty,
    /// The text is not a regular expression; the second field says why.
    #[error("{0:?} is not a valid regular expression: {1}")]
    Regex(String, PatternError),
    /// A regular expression exceeded the backtracking limit.
    #[error("a regular expression exceeds its backtracking limit")]
    RegexTime,
    /// There are more results than [`crate::FindLimits::results_max`].
    #[error("more than {0} series match (limit of results); narrow the expressions")]
    TooManyResults(usize),
    /// The search would take more work than [`crate::FindLimits::visited_max`].
    #[error(
        "the search would test more than {0} values and series (limit of visited nodes); narrow the expressions"
    )]
    TooManyVisits(usize),
}

impl TagExpression {
    /// Parses an expression by graphite-web's rules.
    ///
    /// # Errors
    ///
    /// Returns [`TagError::Expression`] or [`TagError::Regex`] if the text is not an expression.
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
                // graphite-web anchors the pattern at the start of the value if it matches the empty value, and
                // searches otherwise. This matters for patterns such as `^a|b`.
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

    /// The regular expression, if it has one.
    pub(crate) fn regex_mut(&mut self) -> Option<&mut Regex> {
        match &mut self.test {
            Test::Matches(regex) | Test::MatchesNot(regex) => Some(regex),
            Test::Is(_) | Test::IsNot(_) => None,
        }
    }

    /// The name of the tag.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The expression that matches every series with this tag.
    pub(super) fn has(tag: &str) -> Self {
        Self { tag: tag.to_owned(), test: Test::IsNot(String::new()) }
    }

    /// Whether series without the tag match.
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

    /// Prefixes of the matching values: each of these values begins with one of them.
    pub(crate) fn beginnings(&self) -> Vec<String> {
        self.beginnings.as_ref().map_or_else(|| vec![String::new()], |texts| texts.to_vec())
    }

    /// Sets the values that match.
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

/// Compiles a regular expression that is anchored at the start of the text, as graphite-web does.
pub(super) fn anchored(regex: &str) -> Result<Pattern, TagError> {
    if regex.starts_with('^') { compiled(regex, regex) } else { compiled(regex, &format!("^({regex})")) }
}

pub(super) fn is_match(pattern: &Pattern, text: &str) -> Result<bool, TagError> {
    pattern.is_match(text).ok_or(TagError::RegexTime)
}

fn compiled(shown: &str, regex: &str) -> Result<Pattern, TagError> {
    Pattern::new(regex).map_err(|error| TagError::Regex(shown.to_owned(), error))
}
