//! The spool's self-metrics.

use plumbago_telemetry::{Counter, Gauge, Registry};

pub(super) struct Metrics {
    pub(super) committed_rows: Counter,
    pub(super) refused: Counter,
    pub(super) dropped_early: Counter,
    pub(super) deferred_rows: Counter,
    pub(super) damaged: Counter,
    pub(super) pending_bytes: Gauge,
    pub(super) pending_rows: Gauge,
    pub(super) retained_bytes: Gauge,
    pub(super) resend_bytes: Gauge,
    pub(super) max_bytes: Gauge,
    pub(super) segments: Gauge,
    pub(super) oldest_seconds: Gauge,
    /// 1 while the spool accepts rows, 0 while its database has failed or its limit is reached.
    pub(super) healthy: Gauge,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
        Self {
            committed_rows: counter(
                "plumbago_spool_committed_rows_total",
                "rows committed for the remote store",
            ),
            refused: counter(
                "plumbago_spool_refused_total",
                "commits refused; their points stay in the journal and are retried",
            ),
            dropped_early: counter(
                "plumbago_spool_dropped_early_bytes_total",
                "bytes of retained slices dropped early because the spool was full",
            ),
            deferred_rows: counter(
                "plumbago_spool_deferred_rows_total",
                "rows deferred because they could not be sent while others could",
            ),
            damaged: counter("plumbago_spool_damaged_total", "damaged places in the spool that were skipped"),
            pending_bytes: gauge("plumbago_spool_pending_bytes", "bytes of pending slices"),
            pending_rows: gauge("plumbago_spool_pending_rows", "pending rows"),
            retained_bytes: gauge(
                "plumbago_spool_retained_bytes",
                "bytes of acknowledged slices kept to be sent again",
            ),
            resend_bytes: gauge(
                "plumbago_spool_resend_bytes",
                "bytes of acknowledged slices that are sent again, because a server may have lost them",
            ),
            max_bytes: gauge("plumbago_spool_max_bytes", "limit on the bytes of all slices"),
            segments: gauge("plumbago_spool_segments", "live segments"),
            oldest_seconds: gauge("plumbago_spool_oldest_seconds", "age of the oldest pending row"),
            healthy: gauge("plumbago_spool_healthy", "1 while the spool accepts commits"),
        }
    }
}
