//! The index as it is asked about tags.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::tags::Tags;
use crate::tags::complete::{TagFilter, TagText};
use crate::tags::expression::{TagError, TagExpression};
use crate::tags::select::{Bounds, Stop};
use crate::{FindLimits, Index};

/// Most values that a regular expression is tried on while a search keeps the lock: a millisecond.
const TRIED_AT_ONCE: u64 = 16_384;

/// Values that are copied at a time when there are more.
const VALUES_PER_TURN: usize = 4096;

impl Index {
    /// The tagged series that match all expressions, sorted.
    pub fn find_series(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
    ) -> Result<Vec<String>, TagError> {
        self.find_series_trying(expressions, limits, TRIED_AT_ONCE)
    }

    /// The first `limit` tags in order that match.
    pub fn list_tags(&self, filter: Option<&TagFilter>, limit: usize) -> Result<Vec<TagText>, TagError> {
        self.tagged().list_tags(filter, limit)
    }

    /// A tag with the first `limit` of its values in order that match; `None` when no series has it.
    pub fn list_values(
        &self,
        tag: &str,
        filter: Option<&TagFilter>,
        limit: usize,
    ) -> Result<Option<(TagText, Vec<TagText>)>, TagError> {
        self.tagged().list_values(tag, filter, limit)
    }

    /// The first `limit` tags in order that begin with `prefix` and that are worth another expression:
    /// some series has them that matches all of these, and none of these is about them.
    pub fn complete_tags(
        &self,
        expressions: &[TagExpression],
        prefix: &str,
        limit: usize,
        limits: &FindLimits,
    ) -> Result<Vec<String>, TagError> {
        let bounds = Bounds { limits: *limits, tried_at_once: TRIED_AT_ONCE };
        self.search_tags(expressions, &bounds, |tags, expressions| {
            tags.complete_tags(expressions, prefix, limit, &bounds)
        })
    }

    /// The first `limit` values of a tag in order that begin with `prefix` and that some series has
    /// which matches all expressions.
    pub fn complete_values(
        &self,
        expressions: &[TagExpression],
        tag: &str,
        prefix: &str,
        limit: usize,
        limits: &FindLimits,
    ) -> Result<Vec<String>, TagError> {
        let bounds = Bounds { limits: *limits, tried_at_once: TRIED_AT_ONCE };
        self.search_tags(expressions, &bounds, |tags, expressions| {
            tags.complete_values(expressions, tag, prefix, limit, &bounds)
        })
    }

    /// Takes a series out of what is found by tags; it stays a metric. False when it was not found.
    pub fn hide_series(&self, name: &str) -> bool {
        self.tagged_mut().hide(name)
    }

    /// The series that are not found by their tags.
    pub fn hidden_series(&self) -> Vec<String> {
        self.tagged().hidden()
    }

    /// Lets a series be found by its tags again. False when it was not hidden.
    pub fn show_series(&self, name: &str) -> bool {
        self.tagged_mut().show(name)
    }

    /// [`Index::find_series`] that tries a regular expression on so many values while it keeps the lock.
    pub(crate) fn find_series_trying(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
        tried_at_once: u64,
    ) -> Result<Vec<String>, TagError> {
        let bounds = Bounds { limits: *limits, tried_at_once };
        // Sorted once others have the lock.
        let mut names = self
            .search_tags(expressions, &bounds, |tags, expressions| tags.find_series(expressions, &bounds))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Searches, with the regular expressions tried beforehand that would hold others up.
    fn search_tags<T>(
        &self,
        expressions: &[TagExpression],
        bounds: &Bounds,
        search: impl Fn(&Tags, &[TagExpression]) -> Result<T, Stop>,
    ) -> Result<T, TagError> {
        let mut expressions = Cow::Borrowed(expressions);
        loop {
            // The lock goes before anything is tried.
            let found = search(&self.tagged(), &expressions);
            match found {
                Ok(found) => return Ok(found),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Untried(place)) => {
                    self.try_values(&mut expressions.to_mut()[place], bounds.limits.visited_max)?;
                }
            }
        }
    }

    /// Tries an expression's regular expression on all values of its tag, without keeping the lock.
    fn try_values(&self, expression: &mut TagExpression, visited_max: usize) -> Result<(), TagError> {
        let tag = expression.tag().to_owned();
        let Some(regex) = expression.regex_mut() else { return Ok(()) };
        let (mut matching, mut visits) = (HashSet::new(), visited_max);
        for beginning in regex.beginnings() {
            let mut after = None;
            loop {
                let values = self.tagged().values_after(&tag, &beginning, after.as_ref(), VALUES_PER_TURN);
                visits = visits.checked_sub(values.len()).ok_or(TagError::TooManyVisits(visited_max))?;
                let is_last = values.len() < VALUES_PER_TURN;
                after = values.last().cloned();
                for value in values {
                    if regex.is_match(&value)? {
                        matching.insert(value);
                    }
                }
                if is_last {
                    break;
                }
            }
        }
        regex.set_known(matching);
        Ok(())
    }
}
