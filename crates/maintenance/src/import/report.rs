//! The results of an import of whisper files.

use std::path::Path;

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::counts::{HistoryCounts, SkipCounts};
use crate::skipped::Skipped;
use crate::verb_error::VerbError;

/// The results of an import so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Whisper files that were found.
    pub files: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
    /// Number of metrics to import.
    pub metrics: u64,
    /// Number of metrics left out because their files have not changed since they were imported.
    pub unchanged: u64,
    /// Number of metrics that existed with other settings than their files have. They keep theirs.
    pub other_settings: u64,
    /// The results of storing the points.
    #[serde(flatten)]
    pub history: HistoryCounts,
    /// Number of points for which their metric has no stage, or that have expired.
    pub left_out: u64,
    /// Number of slots whose value is not a number.
    pub unknown_values: u64,
    /// How often a file was read again because it had changed while it was read.
    pub read_again: u64,
    /// Files that were skipped or need attention.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

impl ImportReport {
    pub(super) fn add(&mut self, stored: &HistoryReport) {
        self.history.note(stored);
        self.other_settings += u64::from(stored.differs);
        self.left_out += stored.left_out;
    }

    /// Counts a skipped file, and lists it.
    pub(super) fn skip(
        &mut self,
        skipped: &mut Skipped,
        file: &Path,
        reason: &str,
        text: &str,
    ) -> Result<(), VerbError> {
        let shown = format!("{file:?}");
        skipped.note(&mut self.skips, reason, shown.trim_matches('"'), text)
    }
}
