//! What a run did.

use plumbago_store::CopyReport;
use serde::{Deserialize, Serialize};

use crate::counts::SkipCounts;

/// The results of a copy, or of a move.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopiesReport {
    /// Metrics that the old name means.
    pub metrics: u64,
    /// Those of them that a run before this one has copied, which was cut off.
    pub copied_before: u64,
    /// Metrics that were copied; in a dry run, that would be.
    pub copied: u64,
    /// New names that did not exist.
    pub created: u64,
    /// New names that existed, so that the points of both are there now.
    pub merged: u64,
    /// Slots and windows that were stored; in a dry run, that would be.
    pub stored: u64,
    /// Those whose slot was known already under the new name.
    pub kept: u64,
    /// Windows folded again from points of both.
    pub folded: u64,
    /// Slots and windows that have expired, or that no stage of the new metric takes.
    pub left_out: u64,
    /// Copies that got the retention that was asked for.
    pub changed: u64,
    /// Old names that were deleted.
    pub deleted: u64,
    /// Directories that became empty and were deleted, in stores that keep directories.
    pub directories: u64,
    /// Tagged series were not looked for, because their tags are not in memory.
    pub without_tags: bool,
    /// Metrics that were not copied, or that stay.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// How long it took.
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
