//! The store's self-metrics.

use plumbago_telemetry::{Counter, Gauge, Registry};

/// Counters and gauges of one store.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    pub(crate) commits: Counter,
    pub(crate) rows: Counter,
    pub(crate) rows_read_before_write: Counter,
    pub(crate) slots_expired: Counter,
    pub(crate) damaged: Counter,
    pub(crate) columns_kept: Counter,
    pub(crate) columns_decoded: Counter,
    pub(crate) refused_no_room: Counter,
    pub(crate) buckets_expired: Counter,
    pub(crate) buckets_merged: Counter,
    pub(crate) keyspaces: Gauge,
    pub(crate) log_bytes: Gauge,
    pub(crate) table_bytes: Gauge,
    pub(crate) free_bytes: Gauge,
}

impl Stats {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(&format!("plumbago_store_{name}"), help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(&format!("plumbago_store_{name}"), help, &[]);
        Self {
            commits: counter("commits_total", "batches committed"),
            rows: counter("rows_written_total", "rows of points written"),
            rows_read_before_write: counter(
                "rows_updated_total",
                "rows that were read before they were written",
            ),
            slots_expired: counter(
                "slots_expired_total",
                "slots not stored because their retention had passed",
            ),
            damaged: counter("damaged_rows_total", "damaged rows that were skipped"),
            columns_kept: counter("columns_from_memory_total", "columns answered from memory"),
            columns_decoded: counter("columns_decoded_total", "columns read from blocks"),
            refused_no_room: counter(
                "refused_no_room_total",
                "commits refused because the disk has less free space than store.embedded.min_free_bytes",
            ),
            buckets_expired: counter("buckets_expired_total", "time buckets dropped"),
            buckets_merged: counter("buckets_merged_total", "time buckets rewritten with long blocks"),
            keyspaces: gauge("keyspaces", "keyspaces of the database"),
            log_bytes: gauge("log_bytes", "bytes of the database's write-ahead logs"),
            table_bytes: gauge("table_bytes", "bytes of tables"),
            free_bytes: gauge("free_bytes", "bytes left on the disk"),
        }
    }
}
