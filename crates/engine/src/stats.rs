//! What the engine counts. The counters of the ledger (DESIGN §3) add up at every moment.

use plumbago_telemetry::{Counter, Gauge, Registry};

/// Why the engine refused an accepted point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reject {
    /// Older than the longest stage of its metric.
    TooOld,
    /// Further ahead of now than `engine.future_max`.
    Future,
    /// The list of points that wait for their time is full.
    FutureFull,
    /// The metric is new and `engine.max_creates_per_minute` is used up.
    CreateLimited,
    /// The metric is new and the memory ceiling is reached.
    MemoryLimited,
    /// The metric is new, and the store cannot hold its name: too many components, …
    NameTooDeep,
    /// … too long a name or part of one, …
    NameTooLong,
    /// … a component that means something to the store.
    NameReserved,
}

/// Number of reasons.
pub(crate) const REASONS: usize = 8;

impl Reject {
    /// The reasons' names, in the order of the enum.
    pub(crate) const NAMES: [&'static str; REASONS] = [
        "too_old",
        "future",
        "future_full",
        "create_limited",
        "memory_limited",
        "name_too_deep",
        "name_too_long",
        "name_reserved",
    ];
}

/// Counters of one engine.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    /// Points given to the engine.
    pub(crate) received: Counter,
    /// Points taken over from state rows and journal at start.
    pub(crate) recovered: Counter,
    /// Slots in committed flushes.
    pub(crate) stored: Counter,
    /// Points that replaced a slot, or expired before they were stored.
    pub(crate) replaced: Counter,
    /// By reason.
    pub(crate) rejected: Vec<Counter>,
    /// Points in heads, queues and lists.
    pub(crate) held: Gauge,
    /// Metrics created.
    pub(crate) created: Counter,
    /// Metrics known.
    pub(crate) metrics: Gauge,
    /// Flush batches committed.
    pub(crate) flushes: Counter,
    /// Metrics in committed flushes.
    pub(crate) flushed_metrics: Counter,
    /// Commits or reads that failed and were tried again.
    pub(crate) retries: Counter,
    /// Late points that went to the store.
    pub(crate) late: Counter,
    /// State rows that could not be read at start.
    pub(crate) damaged_states: Counter,
    /// Bytes that heads, cells and tables take.
    pub(crate) head_bytes: Gauge,
    /// 1 while reading pauses because memory is at its ceiling or the disk does not take the journal.
    pub(crate) paused: Gauge,
}

impl Stats {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter =
            |name: &str, help: &str| registry.counter(&format!("plumbago_engine_{name}"), help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(&format!("plumbago_engine_{name}"), help, &[]);
        let rejected = Reject::NAMES.iter().map(|reason| {
            registry.counter(
                "plumbago_engine_rejected_points_total",
                "points the engine refused",
                &[("reason", reason)],
            )
        });
        Self {
            received: counter("received_points_total", "points given to the engine"),
            recovered: counter(
                "recovered_points_total",
                "points taken over from state rows and journal at start",
            ),
            stored: counter("stored_points_total", "slots in committed flushes"),
            replaced: counter(
                "replaced_points_total",
                "points that replaced a slot or expired before they were stored",
            ),
            rejected: rejected.collect(),
            held: gauge("held_points", "points in heads, queues and lists"),
            created: counter("created_metrics_total", "metrics created"),
            metrics: gauge("metrics", "metrics known"),
            flushes: counter("flushes_total", "flush batches committed"),
            flushed_metrics: counter("flushed_metrics_total", "metrics in committed flushes"),
            retries: counter("store_retries_total", "store calls that failed and were tried again"),
            late: counter("late_points_total", "late points that went to the store"),
            damaged_states: counter("damaged_state_rows_total", "state rows that could not be read at start"),
            head_bytes: gauge("head_bytes", "bytes of heads, cells and tables"),
            paused: gauge("paused", "1 while reading of points pauses"),
        }
    }
}
