//! What an import from another store has done.

use std::collections::BTreeMap;

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use crate::skipped::{Counts, Skipped};
use crate::verb::VerbError;

/// The results of an import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportStoreReport {
    /// The store that was read.
    pub source: String,
    /// Metrics of it that were asked for.
    pub metrics: u64,
    /// Those of them that a run before this one has stored, which was cut off.
    pub stored_before: u64,
    /// Metrics that were deleted in the source meanwhile.
    pub gone: u64,
    /// Metrics without points, of which only names and settings are taken.
    pub without_points: u64,
    /// Slots and windows that were read.
    pub slots: u64,
    /// Metrics that did not exist here.
    pub created: u64,
    /// Metrics that existed here with other settings, and keep them.
    pub other_settings: u64,
    /// Slots and windows that were stored; in a dry run, that would be.
    pub stored: u64,
    /// Those whose slot was known already.
    pub kept: u64,
    /// Windows folded anew from points of both.
    pub folded: u64,
    /// Slots and windows that have expired, or that no stage of the metric takes.
    pub left_out: u64,
    /// Points ahead of now.
    pub ahead: u64,
    /// Metrics that were skipped, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// A few of them for each reason.
    pub examples: BTreeMap<String, Vec<String>>,
    /// Damaged files of the source: what they had is not there.
    pub damage: Vec<String>,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// How long it took.
    pub seconds: f64,
}

impl ImportStoreReport {
    /// True if everything was taken.
    pub fn is_whole(&self) -> bool {
        self.skipped.is_empty() && self.damage.is_empty()
    }

    pub(super) fn add(&mut self, stored: &HistoryReport) {
        self.created += u64::from(stored.created);
        self.other_settings += u64::from(stored.differs);
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
