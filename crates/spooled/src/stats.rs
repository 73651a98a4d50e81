//! The sender's self-metrics.

use plumbago_telemetry::{Counter, Registry};

#[derive(Debug, Clone)]
pub(crate) struct Stats {
    pub(crate) sent_rows: Counter,
    pub(crate) sent_calls: Counter,
    pub(crate) retries: Counter,
    pub(crate) parked_calls: Counter,
    pub(crate) damaged: Counter,
}

impl Stats {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        Self {
            sent_rows: counter(
                "plumbago_sender_rows_total",
                "rows that the remote store has acknowledged, repeated ones included",
            ),
            sent_calls: counter("plumbago_sender_calls_total", "calls that succeeded"),
            retries: counter("plumbago_sender_retries_total", "calls that failed and are tried again"),
            parked_calls: counter(
                "plumbago_sender_parked_calls_total",
                "calls put aside because they fail while others succeed",
            ),
            damaged: counter(
                "plumbago_sender_damaged_slices_total",
                "slices that could not be read, and so not be sent",
            ),
        }
    }
}
