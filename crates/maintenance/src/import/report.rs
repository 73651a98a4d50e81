//! What an import has done.

use std::collections::BTreeMap;
use std::path::Path;

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::skipped::{Counts, Skipped};
use crate::verb::VerbError;

/// The results of an import so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Whisper files that were found.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Metrics to import.
    pub metrics: u64,
    /// Metrics left out because their files have not changed since they were imported.
    pub unchanged: u64,
    /// Metrics that did not exist.
    pub created: u64,
    /// Metrics that existed with other settings than their files have. They keep theirs.
    pub other_settings: u64,
    /// Points that were stored; in a dry run, that would be.
    pub stored: u64,
    /// Points whose slot was known already.
    pub kept: u64,
    /// Windows folded anew from stored and imported points.
    pub folded: u64,
    /// Points that no stage of their metric takes, or that have expired.
    pub left_out: u64,
    /// Slots whose value is not a number.
    pub unknown_values: u64,
    /// How often a file was read again because it had changed while it was read.
    pub read_again: u64,
    /// Files that were skipped or need attention, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// A few of them for each reason.
    pub examples: BTreeMap<String, Vec<String>>,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// How long it took.
    pub seconds: f64,
}

impl ImportReport {
    pub(super) fn add(&mut self, stored: &HistoryReport) {
        self.created += u64::from(stored.created);
        self.other_settings += u64::from(stored.differs);
        self.stored += stored.stored;
        self.kept += stored.kept;
        self.folded += stored.folded;
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
        let counts = Counts { skipped: &mut self.skipped, examples: &mut self.examples };
        skipped.note(counts, reason, shown.trim_matches('"'), text)
    }
}
