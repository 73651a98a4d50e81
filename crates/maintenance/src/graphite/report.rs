//! What an import from a Graphite server has done.

use std::collections::BTreeMap;

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::counts::{HistoryCounts, SkipCounts};

/// The results of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportGraphiteReport {
    /// Metrics of the server that were asked for.
    pub metrics: u64,
    /// Those of them that a run before this one has stored, which was cut off.
    pub stored_before: u64,
    /// Files of tagged series, whose names say nothing. Tagged series are found by tag expressions.
    pub tagged: u64,
    /// Metrics of which the server has no points.
    pub without_points: u64,
    /// Requests for points.
    pub requests: u64,
    /// Points that were read.
    pub points: u64,
    /// Answers whose step is not the one of the stage, by what was asked, what came and what became of it.
    pub other_steps: BTreeMap<String, u64>,
    /// What became of the points.
    #[serde(flatten)]
    pub history: HistoryCounts,
    /// Points that no stage of their metric takes, or that have expired.
    pub left_out: u64,
    /// Metrics that were skipped.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// How long it took.
    pub seconds: f64,
}

impl ImportGraphiteReport {
    pub(super) fn add(&mut self, stored: &HistoryReport) {
        self.history.note(stored);
        self.left_out += stored.left_out;
    }
}
