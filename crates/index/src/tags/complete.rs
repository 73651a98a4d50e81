//! Lists of tags and values.

use std::ops::Bound;
use std::sync::Arc;

use plumbago_model::rules::Pattern;

use super::Tags;
use super::expression::{self, TagError, TagExpression};
use super::pairs::{Tag, behind};
use super::postings::Postings;
use super::select::{Bounds, Stop, starting_with};

/// A tag, or a value of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagText {
    /// A number that identifies the text while it exists.
    pub id: u32,
    /// The name of the tag, or the value.
    pub text: String,
    /// The number of series that have the tag or value.
    pub series: u64,
}

/// A regular expression that filters a list of tags or values. It must match at the start of the text.
#[derive(Debug)]
pub struct TagFilter(Pattern);

impl TagFilter {
    /// Compiles a filter.
    ///
    /// # Errors
    ///
    /// Returns [`TagError::Regex`] if the text is not a regular expression.
    pub fn new(regex: &str) -> Result<Self, TagError> {
        expression::anchored(regex).map(Self)
    }

    /// Whether a tag or value matches.
    ///
    /// # Errors
    ///
    /// Returns [`TagError::RegexTime`] if the search exceeds the backtracking limit.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, TagError> {
        expression::is_match(&self.0, text)
    }
}

/// A tag or value, copied while the lock is held.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    id: u32,
    pub(crate) text: Arc<str>,
    pub(crate) series: u64,
}

impl From<Listed> for TagText {
    fn from(listed: Listed) -> Self {
        Self { id: listed.id, text: listed.text.as_ref().to_owned(), series: listed.series }
    }
}

impl Tags {
    /// Up to `count` tags after `after`, sorted.
    pub(crate) fn tags_after(&self, after: Option<&str>, count: usize) -> Vec<Listed> {
        let listed = |(text, id, tag): (&Arc<str>, u32, &Tag)| Listed {
            id,
            text: Arc::clone(text),
            series: tag.series.len(),
        };
        self.pairs.tags_after(after).take(count).map(listed).collect()
    }

    /// A tag; `None` if no series has it.
    pub(crate) fn tag_text(&self, tag: &str) -> Option<TagText> {
        let (id, known) = self.pairs.tag(tag)?;
        Some(TagText { id, text: tag.to_owned(), series: known.series.len() })
    }

    /// The number of values of a tag; 0 if no series has it.
    pub(crate) fn value_count(&self, tag: &str) -> usize {
        self.pairs.tag(tag).map_or(0, |(_, tag)| tag.values.len())
    }

    /// Up to `count` values of a tag after `after`, sorted.
    pub(crate) fn listed_values_after(&self, tag: &str, after: Option<&str>, count: usize) -> Vec<Listed> {
        let Some((_, tag)) = self.pairs.tag(tag) else { return Vec::new() };
        let values = tag.values.range::<str, _>((behind(after), Bound::Unbounded));
        let listed = |(text, pair): (&Arc<str>, &u32)| Listed {
            id: *pair,
            text: Arc::clone(text),
            series: self.pairs.series(*pair).len(),
        };
        values.take(count).map(listed).collect()
    }

    /// The first tags, sorted, that begin with `prefix`, are mentioned in no expression, and belong to at
    /// least one series that matches the expressions.
    pub(crate) fn complete_tags(
        &self,
        expressions: &[TagExpression],
        prefix: &str,
        limit: usize,
        bounds: &Bounds,
    ) -> Result<Vec<String>, Stop> {
        let series = self.context(expressions, bounds)?;
        let meets = |others: &Postings| series.as_ref().is_none_or(|series| series.meets(others));
        let tags = self.pairs.tags().filter(|(name, _, tag)| {
            let is_named = expressions.iter().any(|expression| expression.tag() == *name);
            name.starts_with(prefix) && !is_named && meets(&tag.series)
        });
        Ok(tags.take(limit).map(|(name, ..)| name.to_owned()).collect())
    }

    /// The first values of a tag, sorted, that begin with `prefix` and belong to at least one series that
    /// matches the expressions.
    pub(crate) fn complete_values(
        &self,
        expressions: &[TagExpression],
        tag: &str,
        prefix: &str,
        limit: usize,
        bounds: &Bounds,
    ) -> Result<Vec<String>, Stop> {
        let mut asked = expressions.to_vec();
        if !asked.is_empty() {
            asked.push(TagExpression::has(tag));
        }
        let series = self.context(&asked, bounds)?;
        let Some((number, tag)) = self.pairs.tag(tag) else { return Ok(Vec::new()) };
        let values = starting_with(tag, prefix);
        let Some(series) = series else {
            return Ok(values.take(limit).map(|(value, _)| value.to_owned()).collect());
        };
        if series.len() < tag.values.len() as u64 {
            return Ok(self.values_of(&series, number, prefix, limit));
        }
        let values = values.filter(|(_, pair)| series.meets(self.pairs.series(*pair)));
        Ok(values.take(limit).map(|(value, _)| value.to_owned()).collect())
    }

    /// The series that match the expressions; `None` (all series) if there are no expressions.
    fn context(&self, expressions: &[TagExpression], bounds: &Bounds) -> Result<Option<Postings>, Stop> {
        if expressions.is_empty() { Ok(None) } else { self.select(expressions, bounds).map(Some) }
    }

    /// The first values, sorted, that some series have for a tag.
    fn values_of(&self, series: &Postings, tag: u32, prefix: &str, limit: usize) -> Vec<String> {
        let of_tag =
            |number| self.pairs_of(number).iter().copied().find(|pair| self.pairs.tag_of(*pair) == tag);
        let mut pairs: Vec<u32> = series.iter().filter_map(of_tag).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let mut values: Vec<&str> = pairs.into_iter().map(|pair| self.pairs.value(pair)).collect();
        values.retain(|value| value.starts_with(prefix));
        values.sort_unstable();
        values.into_iter().take(limit).map(str::to_owned).collect()
    }
}
