//! Computes the resources of a large installation on Cassandra from the layout of the tables and from
//! measured costs. `docs/sizing.md` contains the result. The test fails if the two differ, and
//! `PLUMBAGO_UPDATE=1` renews the document.

use std::fmt::Write as _;
use std::path::Path;

use plumbago_cassandra_node::server;
use plumbago_model::Retention;
use plumbago_store_cassandra::layout::{PARTITION_SLOTS, Table};
use plumbago_store_cassandra::schema;
use plumbago_tests::daemon::Setup;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

/// Costs that were measured on two cores, from `docs/measurements.md`.
mod cost {
    /// Processor seconds of a daemon for a million points, from lines to acknowledged rows.
    pub(super) const CPU_PER_MILLION: f64 = 1.2;
    /// Bytes of memory for a metric that gets points, including its name in the index.
    pub(super) const MEMORY_PER_METRIC: f64 = 491.0;
    /// Bytes of memory for the name of a metric that other daemons write.
    pub(super) const MEMORY_PER_NAME: f64 = 15.4;
    /// Seconds to load a million names: from the local copy, and from Cassandra.
    pub(super) const LOAD_MILLION: [f64; 2] = [2.4, 11.6];
    /// Rows that a node accepts per second with one of the two cores, at 37 rows in a request.
    pub(super) const ROWS_PER_NODE: f64 = 104_200.0;
    /// Largest number of bytes of a row in the spool; [`super::a_row_in_the_spool`] measures it.
    pub(super) const SPOOL_ROW: f64 = 60.0;
    /// Bytes of a point in the journal.
    pub(super) const JOURNAL_POINT: f64 = 16.1;
    /// Bytes of a raw row on a node's disk, with LZ4 and with Zstd.
    pub(super) const DISK_ROW: [f64; 2] = [15.0, 10.4];
    /// Bits of a partition in the bloom filter of a node, at the default of one false positive in a hundred.
    pub(super) const BLOOM_BITS: f64 = 10.0;
}

/// The size and the settings of an installation.
struct Plan {
    name: &'static str,
    retention: &'static str,
    /// `engine.flush_interval`, in seconds.
    flush_interval: f64,
    metrics: f64,
    daemons: f64,
    nodes: f64,
    replicas: f64,
}

const PLAN: Plan = Plan {
    name: "defaults",
    retention: "60s:7d,1h:2y",
    flush_interval: 60.0,
    metrics: 100e6,
    daemons: 10.0,
    nodes: 12.0,
    replicas: 3.0,
};

const PLANS: [Plan; 3] = [
    PLAN,
    Plan { name: "flush_interval = 10m", flush_interval: 600.0, ..PLAN },
    Plan { name: "300s:7d,1h:2y, 30m", retention: "300s:7d,1h:2y", flush_interval: 1800.0, ..PLAN },
];

impl Plan {
    fn tables(&self) -> Vec<Table> {
        let retention: Retention = self.retention.parse().unwrap();
        schema::tables_of(&[retention]).into_iter().collect()
    }

    fn raw(&self) -> Table {
        self.tables().into_iter().find(|table| !table.coarse).unwrap()
    }

    /// Points per second.
    fn points(&self) -> f64 {
        self.metrics / f64::from(self.raw().stage.resolution)
    }

    /// Rows per second, before replication.
    fn rows(&self) -> f64 {
        self.tables().iter().map(|table| self.metrics / f64::from(table.stage.resolution)).sum()
    }

    /// Write requests per second. A flush writes the rows of a metric in one request for each table.
    fn requests(&self) -> f64 {
        let each = |table: &Table| f64::from(table.stage.resolution).max(self.flush_interval);
        self.tables().iter().map(|table| self.metrics / each(table)).sum()
    }

    /// Rows that a metric has on the server, once its stages are full.
    fn stored_rows(&self) -> f64 {
        self.tables().iter().map(|table| f64::from(table.stage.points)).sum()
    }

    /// Partitions that a metric has, once its stages are full. The first and the last are not full.
    fn partitions(&self) -> f64 {
        let of = |table: &Table| f64::from(table.stage.points) / f64::from(PARTITION_SLOTS) + 1.0;
        self.tables().iter().map(of).sum()
    }

    fn per_node(&self, total: f64) -> f64 {
        total * self.replicas / self.nodes
    }

    fn per_daemon(&self, total: f64) -> f64 {
        total / self.daemons
    }

    /// The rows of the table in the document.
    fn figures(&self) -> Vec<(&'static str, String)> {
        let (points, rows) = (self.points(), self.rows());
        let own = self.per_daemon(self.metrics);
        let disk = |row: f64| tera(self.per_node(self.metrics * self.stored_rows() * row));
        vec![
            ("points a second", count(points)),
            ("write requests a second, to all nodes", count(self.requests())),
            ("rows a second on each node", count(self.per_node(rows))),
            ("cores of each node for rows", format!("{:.1}", self.per_node(rows) / cost::ROWS_PER_NODE)),
            ("disk of each node, LZ4", disk(cost::DISK_ROW[0])),
            ("disk of each node, Zstd", disk(cost::DISK_ROW[1])),
            ("partitions on each node", count(self.per_node(self.metrics * self.partitions()))),
            (
                "bloom filters of each node",
                giga(self.per_node(self.metrics * self.partitions()) * cost::BLOOM_BITS / 8.0),
            ),
            (
                "cores of each daemon for points",
                format!("{:.1}", self.per_daemon(points) / 1e6 * cost::CPU_PER_MILLION),
            ),
            ("memory of each daemon, own metrics", giga(own * cost::MEMORY_PER_METRIC)),
            ("memory of each daemon, other names", giga((self.metrics - own) * cost::MEMORY_PER_NAME)),
            ("journal of each daemon, an hour", giga(self.per_daemon(points) * 3600.0 * cost::JOURNAL_POINT)),
            (
                "spool of each daemon, an hour without Cassandra",
                giga(self.per_daemon(rows) * 3600.0 * cost::SPOOL_ROW),
            ),
            ("spool of each daemon, retained 60 s", giga(self.per_daemon(rows) * 60.0 * cost::SPOOL_ROW)),
            ("spool of each daemon, retained 20 min", giga(self.per_daemon(rows) * 1200.0 * cost::SPOOL_ROW)),
            ("load of all names, local copy", minutes(self.metrics / 1e6 * cost::LOAD_MILLION[0])),
            ("load of all names, first start", minutes(self.metrics / 1e6 * cost::LOAD_MILLION[1])),
        ]
    }
}

fn count(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v => format!("{:.0} k", v / 1e3),
    }
}

fn giga(bytes: f64) -> String {
    format!("{:.1} GB", bytes / 1e9)
}

fn tera(bytes: f64) -> String {
    format!("{:.1} TB", bytes / 1e12)
}

fn minutes(seconds: f64) -> String {
    format!("{:.0} min", seconds / 60.0)
}

/// The table of the document.
fn table() -> String {
    let mut text = format!("| | {} |\n", PLANS.map(|plan| plan.name).join(" | "));
    text += "| --- | --- | --- | --- |\n";
    let columns = PLANS.map(|plan| plan.figures());
    for (row, (what, _)) in columns[0].iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|column| column[row].1.as_str()).collect();
        let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
    }
    text
}

#[test]
fn the_document_has_these_figures() {
    const MARKS: [&str; 2] = ["<!-- figures -->\n", "<!-- end of figures -->\n"];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sizing.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let wanted = format!("{before}{}\n{}\n{}{after}", MARKS[0], table(), MARKS[1]);
    if std::env::var_os("PLUMBAGO_UPDATE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let document = std::fs::read_to_string(&path).unwrap();
    assert!(document == wanted, "docs/sizing.md differs: PLUMBAGO_UPDATE=1 renews it");
}

/// The bytes that a row takes in the spool, measured on rows that are retained.
#[test]
fn a_row_in_the_spool() {
    const METRICS: usize = 2000;
    const KEYSPACE: &str = "sizing";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", KEYSPACE);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "4").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.request_timeout", "60s").set("engine.flush_interval", "1h");
    setup.set("spool.linger", "100ms").set("spool.retain", "1d");
    setup.schemas("[all]\npattern = .*\nretentions = 60s:7d\n");
    assert!(setup.run(&["syncdb"]).status.success());
    let start = 1_700_000_040;
    let daemon = setup.clock(start).start();
    let counter = |name: &str| daemon.counters().sum(name);
    for minute in 0..3 {
        let time = start + minute * 60;
        daemon.set_clock(time);
        let points: Vec<Point> =
            (0..METRICS).map(|n| Point::new(format!("sizing.m{n}"), time, n as f64)).collect();
        daemon.put(&points);
        daemon.applied_at((minute as u64 + 1) * METRICS as u64);
        daemon.flush();
    }
    wait_until("all rows to be acknowledged", || {
        counter("plumbago_spool_committed_rows_total") == 3 * METRICS as u64
            && counter("plumbago_spool_pending_rows") == 0
    });
    let row = counter("plumbago_spool_retained_bytes") as f64 / (3 * METRICS) as f64;
    println!("{row:.1} bytes for a row in the spool");
    assert!(row <= cost::SPOOL_ROW && row > cost::SPOOL_ROW * 0.8, "{row:.1} bytes for a row in the spool");
    drop(daemon);
    server.clean_up(KEYSPACE).unwrap();
}
