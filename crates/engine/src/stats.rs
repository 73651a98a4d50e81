//! The engine's self-metrics, and the reasons why points are rejected.

use plumbago_telemetry::{Counter, Gauge, Histogram, Registry};

/// Why the engine rejected a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reject {
    /// The point is older than the longest stage of its metric.
    TooOld,
    /// The point is further ahead of now than `engine.future_max`.
    Future,
    /// The list of future points is full.
    FutureFull,
    /// The metric is new, and `engine.max_creates_per_minute` is reached.
    CreateLimited,
    /// The metric is new, and `engine.memory_max` is reached or no metric number is left.
    MemoryLimited,
    /// The metric is new, and its name has more components than the store can hold.
    NameTooDeep,
    /// The metric is new, and its name or a part of it is too long for the store.
    NameTooLong,
    /// The metric is new, and a component of its name is reserved by the store.
    NameReserved,
    /// A journal record whose metric is unknown at the start.
    Unexplained,
    /// A late point that waited in the journal is no longer there.
    JournalDamaged,
    /// The metric was deleted before the point was stored.
    Deleted,
    /// A limit of a quota is reached.
    Quota,
}

/// The number of reasons.
pub(crate) const REASONS: usize = 12;

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
        "unexplained",
        "journal_damaged",
        "deleted",
        "quota",
    ];
}

/// Counters of one engine.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    /// Number of points queued by `push` and `try_push`.
    pub(crate) received: Counter,
    /// Number of points restored from state rows and journal at start.
    pub(crate) recovered: Counter,
    /// Number of slots in committed flushes.
    pub(crate) stored: Counter,
    /// Number of points that replaced a slot, or whose stage no longer existed when they were to be stored.
    pub(crate) replaced: Counter,
    /// Rejected points, by reason.
    pub(crate) rejected: Vec<Counter>,
    /// Number of points in heads, queues and lists.
    pub(crate) held: Gauge,
    /// Number of metrics created.
    pub(crate) created: Counter,
    /// Number of metrics with a head.
    pub(crate) metrics: Gauge,
    /// Flush batches committed.
    pub(crate) flushes: Counter,
    /// Number of metrics in committed flushes.
    pub(crate) flushed_metrics: Counter,
    /// The time of a flush or of late work, from its first try until the store has committed it.
    pub(crate) flush_seconds: Histogram,
    /// Time of one try to commit, whether it succeeds or not.
    pub(crate) commit_seconds: Histogram,
    /// Calls of the store that failed and were retried.
    pub(crate) retries: Counter,
    /// Late points.
    pub(crate) late: Counter,
    /// Late points that wait in the journal.
    pub(crate) late_waiting: Gauge,
    /// State rows that could not be decoded at start.
    pub(crate) damaged_states: Counter,
    /// The number of metrics that get several points for each slot of their raw stage.
    pub(crate) crowded: Gauge,
    /// The number of metrics that a flush of everything still has to write.
    pub(crate) flush_all_left: Gauge,
    /// Memory of heads, cells and tables, in bytes.
    pub(crate) head_bytes: Gauge,
    /// 1 while reading pauses because memory is at its ceiling or the journal cannot be written to the disk.
    pub(crate) paused: Gauge,
}

impl Stats {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter =
            |name: &str, help: &str| registry.counter(&format!("plumbago_engine_{name}"), help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(&format!("plumbago_engine_{name}"), help, &[]);
        let rejected = Reject::NAMES.iter().map(|reason| {
            registry.counter(
                "plumbago_rejected_points_total",
                "points that were refused, by the stage that refused them and the reason",
                &[("stage", "engine"), ("reason", reason)],
            )
        });
        Self {
            received: counter("received_points_total", "points queued for the engine"),
            recovered: counter(
                "recovered_points_total",
                "points restored from state rows and journal at start",
            ),
            stored: counter("stored_points_total", "slots in committed flushes"),
            replaced: counter(
                "replaced_points_total",
                "points that replaced the value of a slot, or whose stage was removed before they were \
                 stored",
            ),
            rejected: rejected.collect(),
            held: gauge("held_points", "points in heads, queues and lists"),
            created: counter("created_metrics_total", "metrics created"),
            metrics: gauge("metrics", "metrics with a head"),
            flushes: counter("flushes_total", "flush batches committed"),
            flushed_metrics: counter("flushed_metrics_total", "metrics in committed flushes"),
            flush_seconds: registry.histogram(
                "plumbago_engine_flush_seconds",
                "time of a flush, from its first try until the store has committed it",
                &[],
            ),
            commit_seconds: store_call(registry, "commit"),
            retries: counter("store_retries_total", "store calls that failed and were retried"),
            late: counter("late_points_total", "points too late for their head, stored directly"),
            late_waiting: gauge(
                "late_points_waiting",
                "late points that wait in the journal, because memory has no room for more; part of the held ones",
            ),
            damaged_states: counter(
                "damaged_state_rows_total",
                "state rows that could not be decoded at start",
            ),
            crowded: gauge(
                "crowded_metrics",
                "metrics that get several points for each slot of their raw stage, among a sample of 1024 for each shard",
            ),
            flush_all_left: gauge(
                "flush_all_left",
                "metrics that a full flush, on request or at a stop, still has to write",
            ),
            head_bytes: gauge("head_bytes", "bytes of heads, cells and tables"),
            paused: gauge("paused", "1 while reading from senders pauses"),
        }
    }
}

/// The histogram of the times of one kind of store call. Failed calls are included.
pub(crate) fn store_call(registry: &Registry, call: &str) -> Histogram {
    let help = "time of a call of the store, whether it succeeds or not";
    registry.histogram("plumbago_store_call_seconds", help, &[("call", call)])
}
