//! The daemon's own counters, read from the admin port as Prometheus would.

use std::collections::BTreeMap;

/// One scrape.
#[derive(Debug, Clone, Default)]
pub struct Counters(BTreeMap<String, f64>);

/// The name of the counter that a crash may be judged by.
pub const JOURNAL_WRITTEN: &str = "plumbago_journal_written_points_total";

impl Counters {
    /// Reads the text format.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        Self(
            lines
                .filter_map(|l| l.rsplit_once(' '))
                .filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)))
                .collect(),
        )
    }

    /// The sum over all label sets of a name; 0 when there is none.
    pub fn sum(&self, name: &str) -> u64 {
        self.with(name, "")
    }

    /// The sum over the label sets of a name that contain a text, like `reason="nan"`.
    pub fn with(&self, name: &str, label: &str) -> u64 {
        let of = |key: &str| key.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('{'));
        self.0.iter().filter(|(key, _)| of(key) && key.contains(label)).map(|(_, v)| *v as u64).sum()
    }

    /// All keys with a prefix, and their values: for messages.
    pub fn starting(&self, prefix: &str) -> Vec<(&str, f64)> {
        self.0.iter().filter(|(k, _)| k.starts_with(prefix)).map(|(k, v)| (k.as_str(), *v)).collect()
    }
}

/// DESIGN's ledger: what came in is what is kept, replaced or rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// Points taken from listeners.
    pub received: u64,
    /// Points found in the journal at start.
    pub recovered: u64,
    /// Points in the store.
    pub stored: u64,
    /// Points in heads.
    pub held: u64,
    /// Points whose slot was written again, or that expired before they were stored.
    pub replaced: u64,
    /// Points refused, all reasons.
    pub rejected: u64,
}

impl Ledger {
    /// The ledger of a scrape.
    pub fn of(counters: &Counters) -> Self {
        Self {
            received: counters.sum("plumbago_engine_received_points_total"),
            recovered: counters.sum("plumbago_engine_recovered_points_total"),
            stored: counters.sum("plumbago_engine_stored_points_total"),
            held: counters.sum("plumbago_engine_held_points"),
            replaced: counters.sum("plumbago_engine_replaced_points_total"),
            rejected: counters.sum("plumbago_engine_rejected_points_total"),
        }
    }

    /// The ledger as the admin port tells it (`/admin/ledger`): taken at one moment, and with what
    /// the listeners refused.
    pub fn parse(json: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        let field = |name: &str| value.get(name)?.as_u64();
        Some(Self {
            received: field("received")?,
            recovered: field("recovered")?,
            stored: field("stored")?,
            held: field("held")?,
            replaced: field("replaced")?,
            rejected: field("rejected")?,
        })
    }

    /// True when nothing is unaccounted for.
    pub fn balances(&self) -> bool {
        self.received + self.recovered == self.stored + self.held + self.replaced + self.rejected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_sets_are_summed() {
        let text = "# HELP a x\na{reason=\"nan\"} 2\na{reason=\"late\"} 3\nab 7\n";
        let counters = Counters::parse(text);
        assert_eq!(counters.sum("a"), 5);
        assert_eq!(counters.with("a", "reason=\"nan\""), 2);
        assert_eq!(counters.sum("ab"), 7);
        assert_eq!(counters.sum("b"), 0);
    }
}
