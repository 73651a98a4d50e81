//! Self-metrics of the store.

use plumbago_telemetry::{Counter, Gauge, Registry};

/// Counters and gauges of one store.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    pub(crate) write_requests: Counter,
    pub(crate) rows_written: Counter,
    pub(crate) read_requests: Counter,
    pub(crate) rows_read: Counter,
    pub(crate) metadata_requests: Counter,
    pub(crate) find_requests: Counter,
    pub(crate) find_rows: Counter,
    pub(crate) find_counted: Counter,
    pub(crate) failed_requests: Counter,
    pub(crate) expired: Counter,
    pub(crate) partitions_deleted: Counter,
    pub(crate) damaged: Counter,
    pub(crate) tables_refused: Counter,
    pub(crate) refused_names: Counter,
    pub(crate) connects_failed: Counter,
    pub(crate) nodes_returned: Counter,
    pub(crate) nodes: Gauge,
    pub(crate) nodes_up: Gauge,
    pub(crate) clock_difference: Gauge,
}

impl Stats {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter =
            |name: &str, help: &str| registry.counter(&format!("plumbago_cassandra_{name}"), help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(&format!("plumbago_cassandra_{name}"), help, &[]);
        Self {
            write_requests: counter("write_requests_total", "requests that wrote points"),
            rows_written: counter("rows_written_total", "rows of points written and confirmed"),
            read_requests: counter("read_requests_total", "requests that read points"),
            rows_read: counter("rows_read_total", "rows of points read"),
            metadata_requests: counter("metadata_requests_total", "requests on the tables for names"),
            find_requests: counter("find_requests_total", "requests that searched names with SASI indexes"),
            find_rows: counter("find_rows_total", "rows read by searches with SASI indexes"),
            find_counted: counter(
                "find_terms_counted_total",
                "terms of slow searches whose rows were counted",
            ),
            failed_requests: counter("failed_requests_total", "requests that failed"),
            expired: counter(
                "slots_expired_total",
                "slots left out because they were older than their retention",
            ),
            partitions_deleted: counter(
                "partitions_deleted_total",
                "partitions of points that were deleted; each leaves a tombstone",
            ),
            damaged: counter("damaged_rows_total", "foreign or damaged rows that were skipped"),
            tables_refused: counter(
                "refused_by_schema_total",
                "requests refused because a table is missing or has the wrong form",
            ),
            refused_names: counter("refused_names_total", "names that the tables cannot hold"),
            connects_failed: counter("connects_failed_total", "failed attempts to connect to a cluster"),
            nodes_returned: counter(
                "nodes_returned_total",
                "restarts of nodes noticed while running; such a node may have lost confirmed rows",
            ),
            nodes: gauge("nodes", "known nodes of the cluster that holds the points"),
            nodes_up: gauge("nodes_up", "connected nodes of the cluster that holds the points"),
            clock_difference: gauge(
                "clock_difference_seconds",
                "the server's clock minus this machine's, at the last check",
            ),
        }
    }
}
