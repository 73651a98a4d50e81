//! What an import from a Graphite server has done.

use std::collections::BTreeMap;

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::skipped::{Counts, Skipped};
use crate::verb::VerbError;

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
    /// Metrics that did not exist here.
    pub created: u64,
    /// Points that were stored; in a dry run, that would be.
    pub stored: u64,
    /// Points whose slot was known already.
    pub kept: u64,
    /// Windows folded anew from stored and imported points.
    pub folded: u64,
    /// Points that no stage of their metric takes, or that have expired.
    pub left_out: u64,
    /// Metrics that were skipped, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// A few of them for each reason.
    pub examples: BTreeMap<String, Vec<String>>,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// How long it took.
    pub seconds: f64,
}

impl ImportGraphiteReport {
    pub(super) fn add(&mut self, stored: &HistoryReport) {
        self.created += u64::from(stored.created);
        self.stored += stored.stored;
        self.kept += stored.kept;
        self.folded += stored.folded;
        self.left_out += stored.left_out;
    }

    /// Counts a skipped metric, and lists it.
    pub(super) fn skip(
        &mut self,
        skipped: &mut Skipped,
        reason: &str,
        name: &str,
        text: &str,
    ) -> Result<(), VerbError> {
        let counts = Counts { skipped: &mut self.skipped, examples: &mut self.examples };
        skipped.note(counts, reason, name, text)
    }
}
