//! Searches of the index by tags.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::tags::Tags;
use crate::tags::complete::{Listed, TagFilter, TagText};
use crate::tags::expression::{TagError, TagExpression};
use crate::tags::select::{Bounds, Stop};
use crate::{FindLimits, Index};

/// Maximum number of values on which a regular expression is tried while a search holds the lock. This takes
/// about a millisecond.
const TRIED_AT_ONCE: u64 = 16_384;

/// Maximum number of names that a listing copies while the lock is held, and that it keeps in memory.
const NAMES_PER_TURN: usize = 16_384;

/// Maximum number of values that are copied while the lock is held.
const VALUES_PER_TURN: usize = 4096;

impl Index {
    /// The tagged series that match all expressions, sorted.
    ///
    /// # Errors
    ///
    /// Returns [`TagError`] if all expressions match the empty value, if the search exceeds a limit, or if a
    /// regular expression exceeds its limit.
    pub fn find_series(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
    ) -> Result<Vec<String>, TagError> {
        self.find_series_trying(expressions, limits, TRIED_AT_ONCE)
    }

    /// Passes the same series to `visit` in pieces, each of which is sorted. No lock is held while `visit`
    /// runs; it returns whether to continue with another piece. Only the names of one piece are in memory,
    /// and a number for each series. Series that are added or removed meanwhile may be missed or included.
    ///
    /// # Errors
    ///
    /// Returns [`TagError`] as [`Index::find_series`] does. Some names may already have been visited then.
    pub fn series_each(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
        visit: &mut dyn FnMut(Vec<String>) -> bool,
    ) -> Result<(), TagError> {
        self.series_in_pieces(expressions, limits, NAMES_PER_TURN, visit)
    }

    /// [`Index::series_each`] with another size of the pieces.
    pub(crate) fn series_in_pieces(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
        count: usize,
        visit: &mut dyn FnMut(Vec<String>) -> bool,
    ) -> Result<(), TagError> {
        let bounds = Bounds { limits: *limits, tried_at_once: TRIED_AT_ONCE };
        let (mut left, mut reuses) = self.search_tags(expressions, &bounds, |tags, expressions| {
            Ok((tags.matching(expressions, &bounds)?, tags.reuses()))
        })?;
        while !left.is_empty() {
            let mut names = self.take_names(&mut left, reuses, count);
            if names.is_none() {
                // The numbers may belong to other series by now, so search again.
                let found = self.search_tags(expressions, &bounds, |tags, expressions| {
                    let mut kept = tags.matching(expressions, &bounds)? & &left;
                    let names = tags.take_names(&mut kept, count);
                    Ok((kept, tags.reuses(), names))
                })?;
                (left, reuses, names) = (found.0, found.1, Some(found.2));
            }
            let mut names = names.unwrap_or_default();
            names.sort_unstable();
            if !names.is_empty() && !visit(names) {
                break;
            }
        }
        Ok(())
    }

    /// The names of the next series, unless numbers have been given to other series since `reuses`.
    fn take_names(&self, left: &mut RoaringBitmap, reuses: u64, count: usize) -> Option<Vec<String>> {
        let tags = self.tagged();
        (tags.reuses() == reuses).then(|| tags.take_names(left, count))
    }

    /// The first `limit` tags that match, sorted. The filter runs without the lock, so that a slow filter
    /// does not delay other users of the index. Tags that are added or removed meanwhile may be missed or
    /// included.
    ///
    /// # Errors
    ///
    /// Returns [`TagError::RegexTime`] if the filter exceeds the backtracking limit.
    pub fn list_tags(&self, filter: Option<&TagFilter>, limit: usize) -> Result<Vec<TagText>, TagError> {
        self.list(limit, tried_on(filter), |tags, after, count| tags.tags_after(after, count))
    }

    /// A tag, with the first `limit` of its values that match, sorted. `None` if no series has the tag. As in
    /// [`Index::list_tags`], the filter runs without the lock.
    ///
    /// # Errors
    ///
    /// Returns [`TagError::RegexTime`] if the filter exceeds the backtracking limit.
    pub fn list_values(
        &self,
        tag: &str,
        filter: Option<&TagFilter>,
        limit: usize,
    ) -> Result<Option<(TagText, Vec<TagText>)>, TagError> {
        self.list_values_matching(tag, tried_on(filter), limit)
    }

    /// [`Index::list_values`] with a function in place of the filter.
    pub(crate) fn list_values_matching(
        &self,
        tag: &str,
        is_match: impl FnMut(&str) -> Result<bool, TagError>,
        limit: usize,
    ) -> Result<Option<(TagText, Vec<TagText>)>, TagError> {
        let Some(known) = self.tagged().tag_text(tag) else { return Ok(None) };
        let values =
            self.list(limit, is_match, |tags, after, count| tags.listed_values_after(tag, after, count))?;
        Ok(Some((known, values)))
    }

    /// The first `limit` texts that match. `next` copies a part of the list while the lock is held.
    fn list(
        &self,
        limit: usize,
        mut is_match: impl FnMut(&str) -> Result<bool, TagError>,
        next: impl Fn(&Tags, Option<&str>, usize) -> Vec<Listed>,
    ) -> Result<Vec<TagText>, TagError> {
        let (mut matching, mut after) = (Vec::new(), None::<Arc<str>>);
        while matching.len() < limit {
            let copied = next(&self.tagged(), after.as_deref(), VALUES_PER_TURN);
            let is_last = copied.len() < VALUES_PER_TURN;
            after = copied.last().map(|last| Arc::clone(&last.text));
            for listed in copied {
                if matching.len() < limit && is_match(&listed.text)? {
                    matching.push(listed.into());
                }
            }
            if is_last {
                break;
            }
        }
        Ok(matching)
    }

    /// The first `limit` tags, sorted, that begin with `prefix`. The tags are mentioned in no expression, and
    /// belong to at least one series that matches all expressions.
    ///
    /// # Errors
    ///
    /// Returns [`TagError`] as [`Index::find_series`] does.
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

    /// The first `limit` values of a tag, sorted, that begin with `prefix` and belong to at least one series
    /// that matches all expressions.
    ///
    /// # Errors
    ///
    /// Returns [`TagError`] as [`Index::find_series`] does.
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

    /// Hides a series from searches by tags, but keeps it as a metric. Returns `false` if these searches did not find
    /// it before.
    pub fn hide_series(&self, name: &str) -> bool {
        self.tagged_mut().hide(name)
    }

    /// The names of the series that are hidden from searches by tags.
    pub fn hidden_series(&self) -> Vec<String> {
        self.tagged().hidden()
    }

    /// Shows a hidden series in searches by tags again. Returns `false` if it was not hidden.
    pub fn show_series(&self, name: &str) -> bool {
        self.tagged_mut().show(name)
    }

    /// [`Index::find_series`] with another limit for the values that are tried while the lock is held.
    pub(crate) fn find_series_trying(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
        tried_at_once: u64,
    ) -> Result<Vec<String>, TagError> {
        let bounds = Bounds { limits: *limits, tried_at_once };
        // Sorted after the lock is released.
        let mut names = self
            .search_tags(expressions, &bounds, |tags, expressions| tags.find_series(expressions, &bounds))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Runs a search. Regular expressions whose evaluation would hold the lock too long are tried on all
    /// values beforehand.
    fn search_tags<T>(
        &self,
        expressions: &[TagExpression],
        bounds: &Bounds,
        search: impl Fn(&Tags, &[TagExpression]) -> Result<T, Stop>,
    ) -> Result<T, TagError> {
        let mut expressions = Cow::Borrowed(expressions);
        loop {
            // The lock is released before any regular expression is tried.
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

    /// Tries the regular expression of an expression on all values of its tag, without holding the lock.
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

/// The test of a filter. If there is no filter, everything matches.
fn tried_on(filter: Option<&TagFilter>) -> impl Fn(&str) -> Result<bool, TagError> {
    move |text| filter.map_or(Ok(true), |filter| filter.is_match(text))
}
