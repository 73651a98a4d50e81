//! Counters, gauges and histograms. Cloning one gives another handle to the same number.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;

/// Upper bounds of the histogram buckets, in seconds. They range from a cached answer to a spool that is an
/// hour behind.
pub(crate) const BUCKETS_SECONDS: [f64; 17] = [
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0,
    36_000.0,
];

/// The exporter keeps every recorded value until it is sorted into its bucket. That happens after this many
/// values.
const PENDING_MAX: u64 = 1024;

/// A number that only grows.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The total since the counter was registered.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that can go up and down.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Replaces the value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// The value that was set last; 0 at first.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// The distribution of a duration: the number of values up to each bucket's bound, and their sum.
#[derive(Clone)]
pub struct Histogram(Arc<Inner>);

struct Inner {
    exported: metrics::Histogram,
    exporter: PrometheusHandle,
    recorded: AtomicU64,
    nanos: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(exported: metrics::Histogram, exporter: PrometheusHandle) -> Self {
        let (recorded, nanos) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Inner { exported, exporter, recorded, nanos }))
    }

    /// Adds one duration. Lock-free, except for about one call in a thousand. Meant for batches, requests and
    /// flushes, not for single points.
    pub fn record(&self, duration: Duration) {
        self.0.exported.record(duration.as_secs_f64());
        // Wraps around after 584 years of recorded time.
        self.0.nanos.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
        // Without this, the pending values would accumulate if nothing reads the metrics.
        if self.0.recorded.fetch_add(1, Ordering::Relaxed) % PENDING_MAX == PENDING_MAX - 1 {
            self.0.exporter.run_upkeep();
        }
    }

    /// How many durations have been recorded.
    pub fn count(&self) -> u64 {
        self.0.recorded.load(Ordering::Relaxed)
    }

    /// The sum of all recorded durations.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0.nanos.load(Ordering::Relaxed))
    }
}

impl Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Histogram").field(&self.count()).finish()
    }
}
