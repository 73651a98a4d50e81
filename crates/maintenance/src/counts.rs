//! Counts that the reports of several verbs share. In the JSON of a report they appear beside the report's
//! own fields.

use std::collections::BTreeMap;

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

/// Number of examples for each reason in a report.
const EXAMPLES_MAX: usize = 5;

/// The results of storing histories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryCounts {
    /// Number of metrics that did not exist in this store.
    pub created: u64,
    /// Slots and windows that were stored; in a dry run, that would be stored.
    pub stored: u64,
    /// Number of slots that were not stored, because the store already had a value for them.
    pub kept: u64,
    /// Number of windows computed again from stored and imported points.
    pub folded: u64,
}

impl HistoryCounts {
    /// Counts a history that was stored.
    pub(crate) fn note(&mut self, stored: &HistoryReport) {
        self.created += u64::from(stored.created);
        self.stored += stored.stored;
        self.kept += stored.kept;
        self.folded += stored.folded;
    }

    /// Adds other counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.created += other.created;
        self.stored += other.stored;
        self.kept += other.kept;
        self.folded += other.folded;
    }
}

/// The numbers of items that were skipped or need attention.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SkipCounts {
    /// The number of skipped items, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// A few examples for each reason.
    pub examples: BTreeMap<String, Vec<String>>,
}

impl SkipCounts {
    /// Whether nothing was skipped.
    pub fn is_empty(&self) -> bool {
        self.skipped.is_empty()
    }

    /// Counts one item, and keeps it as an example.
    pub(crate) fn note(&mut self, reason: &str, what: &str, text: &str) {
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
        self.note_example(reason, what, text);
    }

    /// Keeps an example of something that does not count as skipped.
    pub(crate) fn note_example(&mut self, reason: &str, what: &str, text: &str) {
        let examples = self.examples.entry(reason.to_owned()).or_default();
        if examples.len() < EXAMPLES_MAX {
            examples.push(format!("{what}: {text}"));
        }
    }

    /// Adds the skipped items of another count.
    pub(crate) fn add(&mut self, other: &Self) {
        for (reason, count) in &other.skipped {
            *self.skipped.entry(reason.clone()).or_default() += count;
        }
        for (reason, examples) in &other.examples {
            let known = self.examples.entry(reason.clone()).or_default();
            let room = EXAMPLES_MAX.saturating_sub(known.len());
            known.extend(examples.iter().take(room).cloned());
        }
    }
}

/// The short reason of a store's refusal, which is the text before the first colon.
pub(crate) fn reason_of(refused: &str) -> &str {
    refused.split_once(':').map_or(refused, |(reason, _)| reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Report {
        metrics: u64,
        #[serde(flatten)]
        history: HistoryCounts,
        #[serde(flatten)]
        skips: SkipCounts,
        seconds: f64,
    }

    #[test]
    fn shared_counts_stand_among_those_of_a_report() {
        let mut report = Report { metrics: 3, seconds: 1.0, ..Report::default() };
        let stored =
            HistoryReport { created: true, stored: 7, kept: 2, folded: 1, ..HistoryReport::default() };
        report.history.note(&stored);
        report.skips.note("name", "a b", "it has a blank");
        let json = json!({
            "metrics": 3, "created": 1, "stored": 7, "kept": 2, "folded": 1, "skipped": {"name": 1},
            "examples": {"name": ["a b: it has a blank"]}, "seconds": 1.0,
        });
        assert_eq!(serde_json::to_value(&report).unwrap(), json);
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
        // A report as another version may have written it.
        let part: Report = serde_json::from_value(json!({"stored": 7, "other": 1})).unwrap();
        assert_eq!(part.history, HistoryCounts { stored: 7, ..HistoryCounts::default() });
    }

    #[test]
    fn a_reason_has_a_few_examples_also_in_a_sum() {
        let mut counts = SkipCounts::default();
        for name in ["a", "b", "c"] {
            counts.note("busy", name, "it is being flushed");
        }
        let more = counts.clone();
        counts.add(&more);
        assert_eq!((counts.skipped["busy"], counts.examples["busy"].len()), (6, EXAMPLES_MAX));
        counts.note_example("other", "d", "it is another");
        assert_eq!(counts.skipped.get("other"), None);
        assert_eq!(counts.examples["other"], ["d: it is another"]);
        assert_eq!(reason_of("busy: it is being flushed: a"), "busy");
        assert_eq!(reason_of("gone"), "gone");
    }
}
