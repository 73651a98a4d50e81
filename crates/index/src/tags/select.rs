//! The series that match expressions.
//!
//! The smallest set that must hold a series is taken first and narrowed down; a regular expression is
//! tried on the values of its tag, or on the values of the series that are left when these are fewer.

use std::collections::HashMap;
use std::ops::Bound;

use roaring::RoaringBitmap;

use super::Tags;
use super::expression::{TagError, TagExpression, Test};
use super::pairs::Tag;
use super::postings::Postings;
use crate::FindLimits;

/// So many characters of a value that a regular expression is tried on count as a visit.
const CHARS_PER_VISIT: usize = 64;

/// Looking up the value of one series takes as long as joining sets of so many series.
const SERIES_PER_LOOK: u64 = 64;

impl Tags {
    /// The names of the series that match all expressions, in any order.
    pub(crate) fn find_series(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
    ) -> Result<Vec<String>, TagError> {
        let series = self.select(expressions, limits)?;
        if series.len() > limits.results_max as u64 {
            return Err(TagError::TooManyResults(limits.results_max));
        }
        Ok(series.iter().map(|number| self.name(number)).collect())
    }

    /// The series that match all expressions.
    pub(super) fn select(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
    ) -> Result<Postings, TagError> {
        let mut selection = Selection { tags: self, visits: limits.visited_max, limits };
        let (mut asking, mut passing) = (Vec::new(), Vec::new());
        for expression in expressions {
            (if expression.passes_empty()? { &mut passing } else { &mut asking }).push(expression);
        }
        if asking.is_empty() {
            return Err(TagError::AllMatchEmpty);
        }
        // Exact sizes are known of some, the others follow in the order of their tags' values.
        asking.sort_by_key(|expression| selection.size(expression));
        let Some((first, rest)) = asking.split_first() else { return Err(TagError::AllMatchEmpty) };
        let mut series = selection.first(first)?;
        for expression in rest.iter().chain(&passing) {
            if series.is_empty() {
                break;
            }
            selection.narrow(&mut series, expression)?;
        }
        Ok(series)
    }

    fn name(&self, number: u32) -> String {
        let mut name = String::new();
        self.write_name(number, &mut name);
        name
    }
}

/// One search.
struct Selection<'a> {
    tags: &'a Tags,
    limits: &'a FindLimits,
    /// What is left of them.
    visits: usize,
}

impl<'a> Selection<'a> {
    /// What an expression costs when it comes first: known sets before those that have to be gathered,
    /// small ones before large ones.
    fn size(&self, expression: &TagExpression) -> (bool, u64) {
        match &expression.test {
            Test::Is(value) => (false, self.has_value(&expression.tag, value).map_or(0, Postings::len)),
            Test::IsNot(_) => (false, self.has(&expression.tag).map_or(0, |tag| tag.series.len())),
            Test::Matches(_) | Test::MatchesNot(_) => {
                (true, self.has(&expression.tag).map_or(0, |tag| tag.values.len() as u64))
            }
        }
    }

    /// The series that pass one expression, which does not let the empty value pass.
    fn first(&mut self, expression: &TagExpression) -> Result<Postings, TagError> {
        let Some(tag) = self.has(&expression.tag) else { return Ok(Postings::default()) };
        match &expression.test {
            Test::Is(value) => Ok(self.has_value(&expression.tag, value).cloned().unwrap_or_default()),
            Test::IsNot(_) => Ok(tag.series.clone()),
            test => self.gather(tag, test, true, None),
        }
    }

    /// Keeps the series that pass another expression.
    fn narrow(&mut self, series: &mut Postings, expression: &TagExpression) -> Result<(), TagError> {
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
                if series.len() < cost_of_gathering(tag, test, wanted, series.len()) {
                    *series = self.try_each(series, number, test)?;
                } else if wanted {
                    *series = self.gather(tag, test, true, Some(series))?;
                } else {
                    let refused = self.gather(tag, test, false, Some(series))?;
                    series.subtract(&refused);
                }
            }
        }
        Ok(())
    }

    /// All series, or those that are also `among`, with a value for which the test says `wanted`.
    fn gather(
        &mut self,
        tag: &Tag,
        test: &Test,
        wanted: bool,
        among: Option<&Postings>,
    ) -> Result<Postings, TagError> {
        let mut sum = RoaringBitmap::new();
        let mut look = |value: &str, pair: u32| -> Result<(), TagError> {
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
        match beginnings(test, wanted) {
            Some(texts) => values_from(tag, texts).try_for_each(|(value, pair)| look(value, pair))?,
            None => tag.values.iter().try_for_each(|(value, pair)| look(value, *pair))?,
        }
        Ok(sum.into())
    }

    /// Tries the value that each series has, each value once.
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

    fn has(&self, tag: &str) -> Option<&'a Tag> {
        self.tags.pairs.tag(tag).map(|(_, tag)| tag)
    }

    fn has_value(&self, tag: &str, value: &str) -> Option<&'a Postings> {
        self.tags.pairs.find(tag, value).map(|pair| self.tags.pairs.series(pair))
    }

    fn visit(&mut self, visits: usize) -> Result<(), TagError> {
        let too_many = TagError::TooManyVisits(self.limits.visited_max);
        self.visits = self.visits.checked_sub(visits).ok_or(too_many)?;
        Ok(())
    }
}

/// The values that begin with a text, in order, with their pairs.
pub(super) fn starting_with<'a>(tag: &'a Tag, beginning: &'a str) -> impl Iterator<Item = (&'a str, u32)> {
    let values = tag
        .values
        .range::<str, _>((Bound::Included(beginning), Bound::Unbounded))
        .map(|(value, pair)| (&**value, *pair));
    values.take_while(move |(value, _)| value.starts_with(beginning))
}

/// The values that begin with one of some texts.
fn values_from<'a>(tag: &'a Tag, texts: &'a [String]) -> impl Iterator<Item = (&'a str, u32)> {
    texts.iter().flat_map(|text| starting_with(tag, text))
}

/// What all values begin with for which the test says `wanted`.
fn beginnings(test: &Test, wanted: bool) -> Option<&[String]> {
    match (test, wanted) {
        (Test::Matches(regex), true) | (Test::MatchesNot(regex), false) => regex.beginnings.as_deref(),
        _ => None,
    }
}

/// What [`Selection::gather`] has to do, in series looked up one by one; not counted further than
/// `enough`.
fn cost_of_gathering(tag: &Tag, test: &Test, wanted: bool, enough: u64) -> u64 {
    let all = tag.values.len() as u64;
    let values = match beginnings(test, wanted) {
        Some(texts) => {
            values_from(tag, texts).take(usize::try_from(enough).unwrap_or(usize::MAX)).count() as u64
        }
        None => all,
    };
    values * (1 + tag.series.len() / all.max(1) / SERIES_PER_LOOK)
}
