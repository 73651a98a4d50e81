//! The results of an import from a Graphite server.

use std::collections::BTreeMap;

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::counts::{HistoryCounts, SkipCounts};

/// The results of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportGraphiteReport {
    /// Number of metrics of the server that were requested.
    pub metrics: u64,
    /// Number of metrics that an earlier, interrupted run had already stored.
    pub stored_before: u64,
    /// Number of files of tagged series that were skipped, because their names are not those of the series. Tagged
    /// series are found by tag expressions.
    pub tagged: u64,
    /// Number of metrics for which the server has no points.
    pub without_points: u64,
    /// Number of requests for points.
    pub requests: u64,
    /// Number of points that were read.
    pub points: u64,
    /// Number of answers whose step was not the requested one, by a text with the requested step, the
    /// returned step and the stage that the points were stored in.
    pub other_steps: BTreeMap<String, u64>,
    /// The results of storing the points.
    #[serde(flatten)]
    pub history: HistoryCounts,
    /// Number of points for which their metric has no stage, or that have expired.
    pub left_out: u64,
    /// Metrics that were skipped.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

impl ImportGraphiteReport {
    pub(super) fn add(&mut self, stored: &HistoryReport) {
        self.history.note(stored);
        self.left_out += stored.left_out;
    }
}
