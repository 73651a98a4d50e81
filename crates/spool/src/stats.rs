//! Self-metrics of the sender. They also count the damaged slices that reads find.

use plumbago_telemetry::{Counter, Histogram, Registry};

#[derive(Debug, Clone)]
pub(crate) struct Stats {
    pub(crate) sent_rows: Counter,
    pub(crate) sent_calls: Counter,
    /// Number of rows sent again for a server that may have lost them.
    pub(crate) resent_rows: Counter,
    /// Number of rows that were not sent again because the store refuses them.
    pub(crate) left_rows: Counter,
    pub(crate) retries: Counter,
    pub(crate) deferred_calls: Counter,
    pub(crate) damaged: Counter,
    /// Time of one call, whether it succeeds or not.
    pub(crate) call_seconds: Histogram,
    /// Age of the rows of a call when the remote store acknowledges them.
    pub(crate) age_seconds: Histogram,
}

impl Stats {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        Self {
            sent_rows: counter(
                "plumbago_sender_rows_total",
                "rows acknowledged by the remote store, repeated ones included",
            ),
            resent_rows: counter(
                "plumbago_sender_resent_rows_total",
                "rows sent again, because a server may have lost them",
            ),
            left_rows: counter(
                "plumbago_sender_left_rows_total",
                "rows that a server may have lost and that are not sent again, because the store refuses them",
            ),
            sent_calls: counter("plumbago_sender_calls_total", "calls that succeeded"),
            retries: counter("plumbago_sender_retries_total", "calls that failed and are retried"),
            deferred_calls: counter(
                "plumbago_sender_deferred_calls_total",
                "calls deferred because they fail while others succeed",
            ),
            damaged: counter(
                "plumbago_sender_damaged_slices_total",
                "damaged slices, which could not be sent",
            ),
            call_seconds: registry.histogram(
                "plumbago_store_call_seconds",
                "time of a call of the store, whether it succeeds or not",
                &[("call", "send")],
            ),
            age_seconds: registry.histogram(
                "plumbago_spool_age_seconds",
                "age of spooled rows when the remote store acknowledges them",
                &[],
            ),
        }
    }
}
