//! Which tags and values there are.

use plumbago_model::rules::Pattern;

use super::Tags;
use super::expression::{self, TagError, TagExpression};
use super::postings::Postings;
use super::select::{Bounds, Stop, starting_with};

/// A tag, or a value of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagText {
    /// A number that it has while it is there.
    pub id: u32,
    /// The tag or the value.
    pub text: String,
    /// How many series have it.
    pub series: u64,
}

/// A regular expression that tags or values of a list must match at their start.
#[derive(Debug)]
pub struct TagFilter(Pattern);

impl TagFilter {
    /// Reads a filter.
    pub fn new(regex: &str) -> Result<Self, TagError> {
        expression::anchored(regex).map(Self)
    }
}

impl Tags {
    /// The first `limit` tags in order that match.
    pub(crate) fn list_tags(
        &self,
        filter: Option<&TagFilter>,
        limit: usize,
    ) -> Result<Vec<TagText>, TagError> {
        let tags = self.pairs.tags().map(|(name, number, tag)| (name, number, tag.series.len()));
        list(tags, filter, limit)
    }

    /// A tag with the first `limit` of its values in order that match.
    pub(crate) fn list_values(
        &self,
        tag: &str,
        filter: Option<&TagFilter>,
        limit: usize,
    ) -> Result<Option<(TagText, Vec<TagText>)>, TagError> {
        let Some((id, known)) = self.pairs.tag(tag) else { return Ok(None) };
        let values =
            known.values.iter().map(|(value, pair)| (&**value, *pair, self.pairs.series(*pair).len()));
        let tag = TagText { id, text: tag.to_owned(), series: known.series.len() };
        Ok(Some((tag, list(values, filter, limit)?)))
    }

    /// The first tags in order that begin with `prefix`, that the expressions do not name, and that
    /// series have which match the expressions.
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

    /// The first values of a tag in order that begin with `prefix`, and that series have which match
    /// the expressions.
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

    /// The series that are left by expressions; `None` for all when there are no expressions.
    fn context(&self, expressions: &[TagExpression], bounds: &Bounds) -> Result<Option<Postings>, Stop> {
        if expressions.is_empty() { Ok(None) } else { self.select(expressions, bounds).map(Some) }
    }

    /// The first values in order that some series have for a tag.
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

fn list<'a>(
    texts: impl Iterator<Item = (&'a str, u32, u64)>,
    filter: Option<&TagFilter>,
    limit: usize,
) -> Result<Vec<TagText>, TagError> {
    let mut list = Vec::new();
    for (text, id, series) in texts {
        if list.len() == limit {
            break;
        }
        if match filter {
            Some(TagFilter(pattern)) => expression::is_match(pattern, text)?,
            None => true,
        } {
            list.push(TagText { id, text: text.to_owned(), series });
        }
    }
    Ok(list)
}
