//! The index as it is asked about tags.

use crate::tags::complete::{TagFilter, TagText};
use crate::tags::expression::{TagError, TagExpression};
use crate::{FindLimits, Index};

impl Index {
    /// The tagged series that match all expressions, sorted.
    pub fn find_series(
        &self,
        expressions: &[TagExpression],
        limits: &FindLimits,
    ) -> Result<Vec<String>, TagError> {
        // Sorted once others have the lock.
        let mut names = self.tagged().find_series(expressions, limits)?;
        names.sort_unstable();
        Ok(names)
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
        self.tagged().complete_tags(expressions, prefix, limit, limits)
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
        self.tagged().complete_values(expressions, tag, prefix, limit, limits)
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
}
