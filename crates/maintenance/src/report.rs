//! The results of a run of a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of a run so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The name of the job.
    pub job: String,
    /// Number of rows read.
    pub scanned: u64,
    /// Number of windows that were compared with their raw slots.
    #[serde(default)]
    pub windows: u64,
    /// Numbers of changes by kind; in a dry run, of changes that would be made.
    pub done: BTreeMap<String, u64>,
    /// Numbers of candidates that were not changed, by reason.
    pub kept: BTreeMap<String, u64>,
    /// A few names for each kind of change.
    pub examples: BTreeMap<String, Vec<String>>,
    /// Whether the run continued an earlier one.
    pub resumed: bool,
    /// Whether the run handled all rows.
    pub finished: bool,
}

/// The reason why a candidate is not deleted: it was written within `maintenance.grace`.
pub(crate) const TOO_YOUNG: &str = "too_young";

pub(crate) const EXAMPLES_MAX: usize = 5;

impl Report {
    /// Counts a change and keeps the name as an example.
    pub(crate) fn note_done(&mut self, kind: &str, name: &str) {
        *self.done.entry(kind.to_owned()).or_default() += 1;
        let examples = self.examples.entry(kind.to_owned()).or_default();
        if examples.len() < EXAMPLES_MAX && !examples.iter().any(|known| known == name) {
            examples.push(name.to_owned());
        }
    }

    /// Counts a candidate that was not changed.
    pub(crate) fn note_kept(&mut self, reason: &str) {
        *self.kept.entry(reason.to_owned()).or_default() += 1;
    }
}
