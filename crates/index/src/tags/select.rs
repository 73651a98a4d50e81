//! Finds the series that match tag expressions.
//!
//! The search starts with the smallest set that contains all results, and narrows it down. A regular expression
//! is tried on the values of its tag, or on the values of the remaining series if these are fewer.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::Tags;
use super::expression::{Regex, TagError, TagExpression, Test};
use super::pairs::Tag;
use super::postings::Postings;
use crate::FindLimits;

/// This many characters of a value count as one visit when a regular expression is tried on it.
const CHARS_PER_VISIT: usize = 64;

/// Looking up the value of one series takes as long as merging sets with this many series in total.
const SERIES_PER_LOOK: u64 = 64;

/// The limits of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) limits: FindLimits,
    /// Maximum number of values that a regular expression is tried on while the lock is held.
    pub(crate) tried_at_once: u64,
}

/// Why a search stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    Error(TagError),
    /// The regular expression at this index must first be tried on all values of its tag.
    Untried(usize),
}

impl From<TagError> for Stop {
    fn from(error: TagError) -> Self {
        Self::Error(error)
    }
}

impl Tags {
    /// The names of the series that match all expressions, in no particular order.
    pub(crate) fn find_series(
        &self,
        expressions: &[TagExpression],
        bounds: &Bounds,
    ) -> Result<Vec<String>, Stop> {
        let (series, most) = (self.select(expressions, bounds)?, bounds.limits.results_max);
        if series.len() > most as u64 {
            return Err(TagError::TooManyResults(most).into());
        }
        Ok(series.iter().map(|number| self.name(number)).collect())
    }

    /// The numbers of the series that match all expressions, for [`Tags::take_names`]. They are valid until
    /// [`Tags::reuses`] changes.
    pub(crate) fn matching(
        &self,
        expressions: &[TagExpression],
        bounds: &Bounds,
    ) -> Result<RoaringBitmap, Stop> {
        let (series, most) = (self.select(expressions, bounds)?, bounds.limits.results_max);
        if series.len() > most as u64 {
            return Err(TagError::TooManyResults(most).into());
        }
        let mut numbers = RoaringBitmap::new();
        series.add_to(&mut numbers);
        Ok(numbers)
    }

    /// How many times a number was given to another series.
    pub(crate) fn reuses(&self) -> u64 {
        self.reuses
    }

    /// Removes the first series, at most `count`, from a set. Returns the names of those that still exist.
    pub(crate) fn take_names(&self, left: &mut RoaringBitmap, count: usize) -> Vec<String> {
        let numbers: Vec<u32> = left.iter().take(count).collect();
        if let Some(last) = numbers.last() {
            left.remove_range(..=*last);
        }
        let is_series = |number: &u32| self.series.get(*number as usize).is_some_and(|s| s.length > 0);
        numbers.into_iter().filter(is_series).map(|number| self.name(number)).collect()
    }

    /// The series that match all expressions.
    pub(super) fn select(&self, expressions: &[TagExpression], bounds: &Bounds) -> Result<Postings, Stop> {
        let mut selection = Selection { tags: self, visits: bounds.limits.visited_max, bounds, place: 0 };
        let (mut asking, mut passing) = (Vec::new(), Vec::new());
        for (place, expression) in expressions.iter().enumerate() {
            (if expression.passes_empty()? { &mut passing } else { &mut asking }).push((place, expression));
        }
        // The sizes of some sets are known exactly. The others are sorted by the number of values of their tag.
        asking.sort_by_key(|(_, expression)| selection.size(expression));
        let Some(((place, first), rest)) = asking.split_first() else {
            return Err(TagError::AllMatchEmpty.into());
        };
        selection.place = *place;
        let mut series = selection.first(first)?;
        for (place, expression) in rest.iter().chain(&passing) {
            if series.is_empty() {
                break;
            }
            selection.place = *place;
            selection.narrow(&mut series, expression)?;
        }
        Ok(series)
    }

    /// Up to `count` values of a tag that begin with a prefix, sorted, after `after`.
    pub(crate) fn values_after(
        &self,
        tag: &str,
        beginning: &str,
        after: Option<&Arc<str>>,
        count: usize,
    ) -> Vec<Arc<str>> {
        let Some((_, tag)) = self.pairs.tag(tag) else { return Vec::new() };
        let start = after.map_or(Bound::Included(beginning), |after| Bound::Excluded(&**after));
        let values = tag.values.range::<str, _>((start, Bound::Unbounded)).map(|(value, _)| value);
        values.take_while(|value| value.starts_with(beginning)).take(count).cloned().collect()
    }

    fn name(&self, number: u32) -> String {
        let mut name = String::new();
        self.write_name(number, &mut name);
        name
    }
}

/// A search in progress.
struct Selection<'a> {
    tags: &'a Tags,
    bounds: &'a Bounds,
    /// The visits that are left.
    visits: usize,
    /// The index of the current expression.
    place: usize,
}

impl<'a> Selection<'a> {
    /// The cost of an expression if it is evaluated first: existing sets before those that must be collected,
    /// and small sets before large ones.
    fn size(&self, expression: &TagExpression) -> (bool, u64) {
        match &expression.test {
            Test::Is(value) => (false, self.has_value(&expression.tag, value).map_or(0, Postings::len)),
            Test::IsNot(_) => (false, self.has(&expression.tag).map_or(0, |tag| tag.series.len())),
            Test::Matches(_) | Test::MatchesNot(_) => {
                (true, self.has(&expression.tag).map_or(0, |tag| tag.values.len() as u64))
            }
        }
    }

    /// The series that match the first expression. This expression must not match the empty value.
    fn first(&mut self, expression: &TagExpression) -> Result<Postings, Stop> {
        let Some(tag) = self.has(&expression.tag) else { return Ok(Postings::default()) };
        match &expression.test {
            Test::Is(value) => Ok(self.has_value(&expression.tag, value).cloned().unwrap_or_default()),
            Test::IsNot(_) => Ok(tag.series.clone()),
            test => {
                self.try_now(test, values_to_try(tag, test, true, u64::MAX))?;
                Ok(self.collect_series(tag, test, true, None)?)
            }
        }
    }

    /// Keeps the series that match another expression.
    fn narrow(&mut self, series: &mut Postings, expression: &TagExpression) -> Result<(), Stop> {
        let Some((number, tag)) = self.tags.pairs.tag(&expression.tag) else {
            if !expression.passes_empty()? {
                *series = Postings::default();
            }
            return Ok(());
        };
        match &expression.test {
            Test::Is(value) if value.is_empty() => series.subtract(&tag.series),
            Test::IsNot(value) if value.is_empty() => series.intersect(&tag.series),
            Test::Is(value) => match self.has_value(&expression.tag, value) {
                Some(others) => series.intersect(others),
                None => *series = Postings::default(),
            },
            Test::IsNot(value) => {
                if let Some(others) = self.has_value(&expression.tag, value) {
                    series.subtract(others);
                }
            }
            test => {
                let wanted = !test.passes("")?;
                let values = values_to_try(tag, test, wanted, series.len());
                self.try_now(test, values.min(series.len()))?;
                if series.len() < cost_of_gathering(tag, values) {
                    *series = self.try_each(series, number, test)?;
                } else if wanted {
                    *series = self.collect_series(tag, test, true, Some(series))?;
                } else {
                    let refused = self.collect_series(tag, test, false, Some(series))?;
                    series.subtract(&refused);
                }
            }
        }
        Ok(())
    }

    /// The series with a value for which the test returns `wanted`; only series in `among`, if that is given.
    fn collect_series(
        &mut self,
        tag: &Tag,
        test: &Test,
        wanted: bool,
        among: Option<&Postings>,
    ) -> Result<Postings, TagError> {
        let mut sum = RoaringBitmap::new();
        let look = |(value, pair): (&str, u32)| -> Result<(), TagError> {
            self.visit(1 + value.len() / CHARS_PER_VISIT)?;
            if test.passes(value)? == wanted {
                let series = self.tags.pairs.series(pair);
                match among {
                    Some(among) => series.add_common_to(among, &mut sum),
                    None => series.add_to(&mut sum),
                }
            }
            Ok(())
        };
        let pair = |value: &str| tag.values.get(value).copied();
        match demanding(test, wanted) {
            Some(Regex { known: Some(values), .. }) => {
                values.iter().filter_map(|value| Some((&**value, pair(value)?))).try_for_each(look)?;
            }
            Some(Regex { beginnings: Some(texts), .. }) => values_from(tag, texts).try_for_each(look)?,
            _ => tag.values.iter().map(|(value, pair)| (&**value, *pair)).try_for_each(look)?,
        }
        Ok(sum.into())
    }

    /// Tries the test on the values of the series, on each value once.
    fn try_each(&mut self, series: &Postings, tag: u32, test: &Test) -> Result<Postings, TagError> {
        let pairs = &self.tags.pairs;
        let mut known: HashMap<Option<u32>, bool> = HashMap::new();
        let mut left = Vec::new();
        for number in series.iter() {
            self.visit(1)?;
            let pair = self.tags.pairs_of(number).iter().copied().find(|pair| pairs.tag_of(*pair) == tag);
            let passes = match known.get(&pair) {
                Some(passes) => *passes,
                None => {
                    let passes = test.passes(pair.map_or("", |pair| pairs.value(pair)))?;
                    known.insert(pair, passes);
                    passes
                }
            };
            if passes {
                left.push(number);
            }
        }
        Ok(left.into_iter().collect::<RoaringBitmap>().into())
    }

    /// Stops the search if a regular expression must be tried on more values than is allowed while the lock is held.
    fn try_now(&self, test: &Test, values: u64) -> Result<(), Stop> {
        match test {
            Test::Matches(Regex { known: None, .. }) | Test::MatchesNot(Regex { known: None, .. })
                if values > self.bounds.tried_at_once =>
            {
                Err(Stop::Untried(self.place))
            }
            _ => Ok(()),
        }
    }

    fn has(&self, tag: &str) -> Option<&'a Tag> {
        self.tags.pairs.tag(tag).map(|(_, tag)| tag)
    }

    fn has_value(&self, tag: &str, value: &str) -> Option<&'a Postings> {
        self.tags.pairs.find(tag, value).map(|pair| self.tags.pairs.series(pair))
    }

    fn visit(&mut self, visits: usize) -> Result<(), TagError> {
        let too_many = TagError::TooManyVisits(self.bounds.limits.visited_max);
        self.visits = self.visits.checked_sub(visits).ok_or(too_many)?;
        Ok(())
    }
}

/// The values that begin with a text, sorted, with their pairs.
pub(super) fn starting_with<'a>(tag: &'a Tag, beginning: &'a str) -> impl Iterator<Item = (&'a str, u32)> {
    let values = tag
        .values
        .range::<str, _>((Bound::Included(beginning), Bound::Unbounded))
        .map(|(value, pair)| (&**value, *pair));
    values.take_while(move |(value, _)| value.starts_with(beginning))
}

/// The values that begin with one of the texts.
fn values_from<'a>(tag: &'a Tag, texts: &'a [String]) -> impl Iterator<Item = (&'a str, u32)> {
    texts.iter().flat_map(|text| starting_with(tag, text))
}

/// The regular expression that a value must match for the test to return `wanted`.
fn demanding(test: &Test, wanted: bool) -> Option<&Regex> {
    match (test, wanted) {
        (Test::Matches(regex), true) | (Test::MatchesNot(regex), false) => Some(regex),
        _ => None,
    }
}

/// How many values [`Selection::collect_series`] would visit. Counting stops at `enough`.
fn values_to_try(tag: &Tag, test: &Test, wanted: bool, enough: u64) -> u64 {
    match demanding(test, wanted) {
        Some(Regex { known: Some(values), .. }) => values.len() as u64,
        Some(Regex { beginnings: Some(texts), .. }) => {
            values_from(tag, texts).take(usize::try_from(enough).unwrap_or(usize::MAX)).count() as u64
        }
        _ => tag.values.len() as u64,
    }
}

/// The cost of [`Selection::collect_series`] for this many values, in look-ups of single series.
fn cost_of_gathering(tag: &Tag, values: u64) -> u64 {
    values * (1 + tag.series.len() / (tag.values.len() as u64).max(1) / SERIES_PER_LOOK)
}
