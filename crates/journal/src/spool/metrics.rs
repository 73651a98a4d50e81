//! The spool's self-metrics.

use plumbago_telemetry::{Counter, Gauge, Registry};

pub(super) struct Metrics {
    pub(super) committed_rows: Counter,
    pub(super) refused: Counter,
    pub(super) dropped_early: Counter,
    pub(super) parked_rows: Counter,
    pub(super) damaged: Counter,
    pub(super) reopened: Counter,
    pub(super) torn_tails: Counter,
    pub(super) unsent_bytes: Gauge,
    pub(super) unsent_rows: Gauge,
    pub(super) retained_bytes: Gauge,
    pub(super) max_bytes: Gauge,
    pub(super) segments: Gauge,
    pub(super) oldest_seconds: Gauge,
    pub(super) healthy: Gauge,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
        Self {
            committed_rows: counter("plumbago_spool_committed_rows_total", "rows taken for the remote store"),
            refused: counter(
                "plumbago_spool_refused_total",
                "commits that were refused; their points stay in the journal and are tried again",
            ),
            dropped_early: counter(
                "plumbago_spool_dropped_early_bytes_total",
                "acknowledged bytes dropped before their time because the spool was full",
            ),
            parked_rows: counter(
                "plumbago_spool_parked_rows_total",
                "rows put aside because they could not be sent and others could",
            ),
            damaged: counter("plumbago_spool_damaged_total", "places in the spool that could not be read"),
            reopened: counter(
                "plumbago_spool_reopened_total",
                "times the spool was opened again after a failed write",
            ),
            torn_tails: counter(
                "plumbago_spool_torn_tails_total",
                "spool files cut at a hole that power loss had left",
            ),
            unsent_bytes: gauge("plumbago_spool_unsent_bytes", "bytes that are not acknowledged"),
            unsent_rows: gauge("plumbago_spool_unsent_rows", "rows that are not acknowledged"),
            retained_bytes: gauge(
                "plumbago_spool_retained_bytes",
                "acknowledged bytes that are kept to be sent again",
            ),
            max_bytes: gauge("plumbago_spool_max_bytes", "most bytes that the spool takes"),
            segments: gauge("plumbago_spool_segments", "live segments"),
            oldest_seconds: gauge("plumbago_spool_oldest_seconds", "age of the oldest unacknowledged row"),
            healthy: gauge("plumbago_spool_healthy", "1 while the spool takes commits"),
        }
    }
}
