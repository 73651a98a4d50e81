//! The counters of the port.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plumbago_telemetry::{Counter, Gauge, Histogram, Registry, Throttle};
use tracing::warn;

use super::refused::Refused;
use super::request::Request;
use crate::reject::excerpt;
use crate::stats::Closed;

/// A sample of each reason is logged at most once a minute.
const SAMPLE_EVERY_MS: i64 = 60_000;

const KINDS: [&str; 5] = ["cache-query", "cache-query-bulk", "get-metadata", "set-metadata", "unknown"];

/// The counters.
#[derive(Debug)]
pub(super) struct Stats {
    requests: [Counter; KINDS.len()],
    refused: [Counter; Refused::ALL.len()],
    samples: [Throttle; Refused::ALL.len()],
    bulk_metrics: Counter,
    points: Counter,
    seconds: Histogram,
    opened: Counter,
    closed: [Counter; Closed::ALL.len()],
    active: Gauge,
    open: Mutex<u64>,
}

impl Stats {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        Self {
            requests: KINDS.map(|kind| {
                let help = "requests on the carbonlink port by their type";
                registry.counter("plumbago_carbonlink_requests_total", help, &[("type", kind)])
            }),
            refused: Refused::ALL.map(|(_, reason)| {
                let help = "requests on the carbonlink port that got no answer or an error, by the reason";
                registry.counter("plumbago_carbonlink_refused_total", help, &[("reason", reason)])
            }),
            samples: [const { Throttle::new(SAMPLE_EVERY_MS) }; Refused::ALL.len()],
            bulk_metrics: counter(
                "plumbago_carbonlink_bulk_metrics_total",
                "metrics in bulk requests on the carbonlink port",
            ),
            points: counter("plumbago_carbonlink_points_total", "points in replies on the carbonlink port"),
            seconds: registry.histogram(
                "plumbago_carbonlink_request_seconds",
                "time from a request on the carbonlink port to its reply",
                &[],
            ),
            opened: counter(
                "plumbago_carbonlink_connections_total",
                "connections accepted on the carbonlink port",
            ),
            closed: Closed::ALL.map(|(_, cause)| {
                let help = "connections closed on the carbonlink port";
                registry.counter("plumbago_carbonlink_connections_closed_total", help, &[("cause", cause)])
            }),
            active: registry.gauge(
                "plumbago_carbonlink_active_connections",
                "open connections on the carbonlink port",
                &[],
            ),
            open: Mutex::new(0),
        }
    }

    pub(super) fn requested(&self, request: &Request) {
        let kind = match request {
            Request::Query(_) => 0,
            Request::Bulk(_) | Request::TooMany => 1,
            Request::Get { .. } => 2,
            Request::Set { .. } => 3,
            Request::Unknown(_) => 4,
        };
        self.requests[kind].add(1);
        if let Request::Bulk(metrics) = request {
            self.bulk_metrics.add(metrics.len() as u64);
        }
    }

    pub(super) fn answered(&self, points: usize, within: Duration) {
        self.points.add(points as u64);
        self.seconds.record(within);
    }

    /// Counts a refusal and logs a sample of it.
    pub(super) fn refuse(&self, reason: Refused, sample: &str, origin: SocketAddr, now_ms: i64) {
        let at = reason as usize;
        self.refused[at].add(1);
        if self.samples[at].pass(now_ms).is_some() {
            warn!(
                reason = Refused::ALL[at].1,
                %origin,
                sample = excerpt(sample.as_bytes()),
                "request on the carbonlink port refused; others refused within the next minute are only counted"
            );
        }
    }

    pub(super) fn opened(&self) {
        self.opened.add(1);
        self.change_open(|open| open + 1);
    }

    pub(super) fn closed(&self, cause: Closed) {
        self.closed[cause as usize].add(1);
        self.change_open(|open| open.saturating_sub(1));
    }

    fn change_open(&self, change: impl FnOnce(u64) -> u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = change(*open);
        self.active.set(*open as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place() {
        for (at, (reason, _)) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
        }
    }
}
