//! The daemon's metrics, read from the admin port in Prometheus's format.

use std::collections::BTreeMap;

/// The values of one scrape.
#[derive(Debug, Clone, Default)]
pub struct Counters(BTreeMap<String, f64>);

/// Name of the counter of the points that survive a kill of the process.
pub const JOURNAL_WRITTEN: &str = "plumbago_journal_written_points_total";

impl Counters {
    /// Parses the text format.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        Self(
            lines
                .filter_map(|l| l.rsplit_once(' '))
                .filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)))
                .collect(),
        )
    }

    /// The sum of a metric over all label sets. 0 if there is none.
    pub fn sum(&self, name: &str) -> u64 {
        self.with(name, "")
    }

    /// The sum of a metric over the label sets that contain `label`, like `reason="nan"`.
    pub fn with(&self, name: &str, label: &str) -> u64 {
        let of = |key: &str| key.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('{'));
        self.0.iter().filter(|(key, _)| of(key) && key.contains(label)).map(|(_, v)| *v as u64).sum()
    }

    /// All keys that start with `prefix` and their values, for messages.
    pub fn starting(&self, prefix: &str) -> Vec<(&str, f64)> {
        self.0.iter().filter(|(k, _)| k.starts_with(prefix)).map(|(k, v)| (k.as_str(), *v)).collect()
    }
}

/// The daemon's ledger: every point that came in is stored, held, replaced or rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// Number of points received by listeners.
    pub received: u64,
    /// Points that aggregation rules made. A scrape counts them as received.
    pub derived: u64,
    /// Points replayed from the journal at the start.
    pub recovered: u64,
    /// Number of points in the store.
    pub stored: u64,
    /// Number of points in memory that are not stored yet.
    pub held: u64,
    /// Number of points that a later point of their slot replaced, or that expired before they were stored.
    pub replaced: u64,
    /// Points that only the aggregation rules took. A scrape does not show them.
    pub consumed: u64,
    /// Points refused for any reason.
    pub rejected: u64,
}

impl Ledger {
    /// The ledger of a scrape.
    pub fn of(counters: &Counters) -> Self {
        Self {
            received: counters.sum("plumbago_engine_received_points_total"),
            derived: 0,
            recovered: counters.sum("plumbago_engine_recovered_points_total"),
            stored: counters.sum("plumbago_engine_stored_points_total"),
            held: counters.sum("plumbago_engine_held_points"),
            replaced: counters.sum("plumbago_engine_replaced_points_total"),
            consumed: 0,
            rejected: counters.with("plumbago_rejected_points_total", "stage=\"engine\""),
        }
    }

    /// Parses `/admin/ledger`. Unlike a scrape, it is a consistent snapshot and includes points that the
    /// listeners refused.
    pub fn parse(json: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        let field = |name: &str| value.get(name)?.as_u64();
        Some(Self {
            received: field("received")?,
            derived: field("derived")?,
            recovered: field("recovered")?,
            stored: field("stored")?,
            held: field("held")?,
            replaced: field("replaced")?,
            consumed: field("consumed")?,
            rejected: field("rejected")?,
        })
    }

    /// The points that `/admin/ledger` shows as queued: they are received, but no shard has applied them.
    pub fn queued(json: &str) -> Option<u64> {
        serde_json::from_str::<serde_json::Value>(json).ok()?.get("queued")?.as_u64()
    }

    /// Whether every point is accounted for.
    pub fn balances(&self) -> bool {
        self.received + self.derived + self.recovered
            == self.stored + self.held + self.replaced + self.consumed + self.rejected
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
