//! The results of an import from another store.

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::counts::{HistoryCounts, SkipCounts};

/// The results of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportStoreReport {
    /// The store that was read.
    pub source: String,
    /// Number of metrics of that store that were selected.
    pub metrics: u64,
    /// Selected metrics that an earlier run, which was cut off, had stored.
    pub stored_before: u64,
    /// Number of metrics that were deleted in the source meanwhile.
    pub gone: u64,
    /// Number of metrics without points, of which only names and settings are imported.
    pub without_points: u64,
    /// Slots and windows that were read.
    pub slots: u64,
    /// Number of metrics that existed here with other settings, and keep them.
    pub other_settings: u64,
    /// The results of storing the slots and windows.
    #[serde(flatten)]
    pub history: HistoryCounts,
    /// Slots and windows that have expired, or for which the metric has no stage.
    pub left_out: u64,
    /// Number of points ahead of now that were imported.
    pub ahead: u64,
    /// Metrics that were skipped.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// Damaged files of the source. Their content is missing from the import.
    pub damage: Vec<String>,
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

impl ImportStoreReport {
    /// Whether everything was imported.
    pub fn is_whole(&self) -> bool {
        self.skips.is_empty() && self.damage.is_empty()
    }

    pub(super) fn add(&mut self, stored: &HistoryReport) {
        self.history.note(stored);
        self.other_settings += u64::from(stored.differs);
        self.left_out += stored.left_out;
    }
}
