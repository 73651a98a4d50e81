//! What a daemon reports of itself at its admin port.

use std::collections::BTreeMap;
use std::io;

use super::http::Client;

/// Points that the engine took, whether or not it kept them.
pub const RECEIVED: &str = "plumbago_engine_received_points_total";
/// Points in heads that no store has yet.
pub const HELD: &str = "plumbago_engine_held_points";
/// Points in the journal.
pub const JOURNALED: &str = "plumbago_journal_written_points_total";

/// Values by name and labels, as Prometheus reads them.
#[derive(Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Asks the daemon.
    pub fn fetch(client: &mut Client) -> io::Result<Self> {
        let answer = client.get("/metrics")?;
        if answer.status != 200 {
            return Err(io::Error::other(format!("/metrics answers {}", answer.status)));
        }
        Ok(Self::parse(&String::from_utf8_lossy(&answer.body)))
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        Self(
            lines
                .filter_map(|l| l.rsplit_once(' '))
                .filter_map(|(k, v)| Some((k.to_owned(), v.parse().ok()?)))
                .collect(),
        )
    }

    /// The sum over all labels; `None` when there is no such metric.
    pub fn sum(&self, name: &str) -> Option<f64> {
        let of_name =
            |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
        let mut values = self.0.iter().filter(|(key, _)| of_name(key)).map(|(_, value)| *value).peekable();
        values.peek()?;
        Some(values.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_labels() {
        let text = "# HELP a b\na_total{x=\"1 2\"} 3\na_total{x=\"2\"} 4\na_total_more 9\nb_bytes 1e3\n";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics.sum("a_total"), Some(7.0));
        assert_eq!(metrics.sum("b_bytes"), Some(1000.0));
        assert_eq!(metrics.sum("c"), None);
    }
}
