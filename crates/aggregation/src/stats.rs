//! The figures (counters and gauges) of aggregation.

use plumbago_telemetry::{Counter, Gauge, Registry};

use crate::buffers::{Buffers, Refusal};

/// Names of the conditions that aggregation can raise.
pub const CONDITIONS: [&str; 2] = [REFUSED, LOG];
/// Holds after values were not aggregated because a limit was reached.
pub(crate) const REFUSED: &str = "aggregation";
/// Holds while the log accepts no records.
pub(crate) const LOG: &str = "aggregation_log";

/// The line of the ledger: `derived` points were added to the received ones, and `consumed` points were
/// dropped because points are not forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// Number of values that rules took. A point counts once for each rule that takes it.
    pub fed: u64,
    /// Values of open intervals that were recovered from an earlier run.
    pub recovered: u64,
    /// Number of values that could not be aggregated because a limit was reached.
    pub refused: u64,
    /// Number of points that were computed from these values and accepted by the engine.
    pub derived: u64,
    /// Number of received points that were neither stored nor relayed, because points are not forwarded.
    pub consumed: u64,
}

/// The counters and gauges of aggregation.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    pub(crate) fed: Counter,
    pub(crate) recovered: Counter,
    pub(crate) derived: Counter,
    pub(crate) consumed: Counter,
    pub(crate) nan: Counter,
    refused_intervals: Counter,
    refused_values: Counter,
    pub(crate) gave_up: Gauge,
    buffers: Gauge,
    intervals: Gauge,
    values: Gauge,
    log_bytes: Gauge,
}

impl Stats {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(name, help, &[]);
        let gauge = |name, help| registry.gauge(name, help, &[]);
        let refused = |reason| {
            let help = "Values that were not aggregated because a limit was reached";
            registry.counter("plumbago_aggregation_refused_values_total", help, &[("reason", reason)])
        };
        Self {
            fed: counter(
                "plumbago_aggregation_fed_values_total",
                "Values that aggregation rules used; a point counts once for each rule that uses it",
            ),
            recovered: counter(
                "plumbago_aggregation_recovered_values_total",
                "Values of open intervals that were recovered from an earlier run",
            ),
            derived: counter(
                "plumbago_aggregation_derived_points_total",
                "Points that aggregation rules made and the engine accepted",
            ),
            consumed: counter(
                "plumbago_aggregation_consumed_points_total",
                "Received points that were not passed on to the store and the relay, because \
                 aggregation.forward_all is off or an output has their name",
            ),
            nan: counter(
                "plumbago_aggregation_nan_total",
                "Values of intervals that are not a number, such as the sum of both infinities",
            ),
            refused_intervals: refused("intervals"),
            refused_values: refused("values"),
            gave_up: gauge(
                "plumbago_aggregation_patterns_given_up",
                "Matches since the last reload that exceeded the backtracking limit",
            ),
            buffers: gauge("plumbago_aggregation_buffers", "Metrics with open intervals"),
            intervals: gauge("plumbago_aggregation_open_intervals", "Open intervals"),
            values: gauge("plumbago_aggregation_kept_values", "Values that are kept for percentiles"),
            log_bytes: gauge("plumbago_aggregation_log_bytes", "Bytes of the log of open intervals"),
        }
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused_intervals.get() + self.refused_values.get()
    }

    pub(crate) fn refuse(&self, refusal: Refusal) {
        match refusal {
            Refusal::Intervals => self.refused_intervals.add(1),
            Refusal::Values => self.refused_values.add(1),
            Refusal::NoBuffer => {}
        }
    }

    pub(crate) fn show(&self, buffers: &Buffers, log_bytes: u64) {
        self.buffers.set(buffers.active() as f64);
        self.intervals.set(buffers.open() as f64);
        self.values.set(buffers.values() as f64);
        self.log_bytes.set(log_bytes as f64);
    }

    pub(crate) fn balance(&self) -> Balance {
        Balance {
            fed: self.fed.get(),
            recovered: self.recovered.get(),
            refused: self.refused(),
            derived: self.derived.get(),
            consumed: self.consumed.get(),
        }
    }
}
