//! The metrics that a daemon exports at its admin port.

use std::collections::BTreeMap;

use crate::{BenchError, Client};

/// Points that reached the engine, including those it rejected.
pub(crate) const RECEIVED: &str = "plumbago_engine_received_points_total";
/// Points in heads that are not in the store yet.
pub(crate) const HELD: &str = "plumbago_engine_held_points";
/// Points written to the journal.
pub(crate) const JOURNALED: &str = "plumbago_journal_written_points_total";

/// Metric values by series: name and labels as they are written in the exposition text.
#[derive(Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads the metrics from `/metrics`.
    ///
    /// # Errors
    ///
    /// [`BenchError::Request`] if the admin port does not answer, [`BenchError::Refused`] if it answers with
    /// a status other than 200.
    pub fn fetch(client: &Client) -> Result<Self, BenchError> {
        let answer = client.get("/metrics")?;
        let body = String::from_utf8_lossy(&answer.body);
        if answer.status != 200 {
            let (query, status) = ("/metrics".to_owned(), answer.status);
            return Err(BenchError::Refused { query, status, body: body.trim().to_owned() });
        }
        Ok(Self::parse(&body))
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

    /// The sum of a metric over all label sets; `None` if the daemon does not export the metric.
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
