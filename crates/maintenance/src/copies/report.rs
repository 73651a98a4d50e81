//! The results of a run.

use plumbago_store::CopyReport;
use serde::{Deserialize, Serialize};

use crate::counts::SkipCounts;

/// The results of a copy, or of a move.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopiesReport {
    /// The number of metrics with the old name.
    pub metrics: u64,
    /// Number of metrics that an earlier, interrupted run had already copied.
    pub copied_before: u64,
    /// Number of metrics that were copied; in a dry run, that would be copied.
    pub copied: u64,
    /// New names that did not exist.
    pub created: u64,
    /// Number of new names that already existed, so that their metrics now have the points of both.
    pub merged: u64,
    /// Slots and windows that were stored; in a dry run, that would be stored.
    pub stored: u64,
    /// Number of slots that were not stored, because the new name already had a value for them.
    pub kept: u64,
    /// Number of windows that were computed again from points of both metrics.
    pub folded: u64,
    /// Slots and windows that have expired, or for which the new metric has no stage.
    pub left_out: u64,
    /// Copies that got the requested retention.
    pub changed: u64,
    /// Old names that were deleted.
    pub deleted: u64,
    /// Number of directories that became empty and were deleted, in stores that keep directories.
    pub directories: u64,
    /// Whether tagged series were not searched for, because their tags are not in memory.
    pub without_tags: bool,
    /// Metrics that were not copied, or were not deleted after copying.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

impl CopiesReport {
    pub(super) fn add(&mut self, copied: &CopyReport) {
        self.copied += 1;
        self.created += u64::from(copied.created);
        self.merged += u64::from(!copied.created);
        self.stored += copied.stored;
        self.kept += copied.kept;
        self.folded += copied.folded;
        self.left_out += copied.left_out;
    }
}
