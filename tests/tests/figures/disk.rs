//! Measures the bytes that a point takes on the server's disk.

use std::path::PathBuf;

use plumbago_cassandra_node::Cluster;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::wait::wait_until;

use super::{node, unsent};

const TABLE: &str = "datapoints_1440p_60s_0";
const METRICS: usize = 1000;
/// Minutes.
const POINTS: i64 = 1440;
/// A midnight in the future, so that no row has a TTL of its own.
const START: i64 = 1_900_000_000 / 86_400 * 86_400;

/// One day of 1,000 metrics at a point a minute, in one file that was compacted: half of the metrics are random
/// walks with two decimals, half are counters.
#[test]
#[ignore = "a figure"]
fn bytes_of_a_row() {
    let Some(node) = node() else { return };
    println!("\n{:<12} {:>14} {:>14}", "compression", "bytes", "bytes a row");
    for compression in ["lz4", "zstd"] {
        let bytes = bytes_with(&node, compression);
        println!("{compression:<12} {bytes:>14} {:>14.2}", bytes as f64 / (METRICS as f64 * POINTS as f64));
    }
}

fn bytes_with(node: &Cluster, compression: &str) -> u64 {
    let keyspace = format!("disk_{compression}");
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", &keyspace);
    setup.set("store.cassandra.contact_points", &node.contact_points()[0]);
    setup.set("engine.flush_interval", "1d").set("log.level", "warn");
    setup.schemas("[all]\npattern = .*\nretentions = 1m:1d\n");
    let ended = setup.run(&["syncdb", "--compression", compression]);
    assert!(ended.status.success(), "{}", ended.output);
    let daemon = setup.clock(START).start();
    let mut walks = Walks::default();
    let half = POINTS / 2;
    for (number, minutes) in [(1, 0..half), (2, half..POINTS)] {
        for minute in minutes {
            send(&daemon, &mut walks, minute);
        }
        flush(&daemon, node, &keyspace, number);
    }
    let mut cql = node.nodes()[0].connect().unwrap();
    let compact = "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': '2'}";
    cql.query(&format!("ALTER TABLE {keyspace}.{TABLE} WITH compaction = {compact}")).unwrap();
    wait_until("the files to be compacted", || files(node, &keyspace, "-Data.db").len() == 1);
    files(node, &keyspace, "").iter().map(|file| file.metadata().unwrap().len()).sum()
}

/// Values that change by pseudo-random steps.
#[derive(Default)]
struct Walks {
    state: u64,
    values: Vec<i64>,
}

impl Walks {
    fn step(&mut self, metric: usize) -> f64 {
        self.values.resize(METRICS, 10_000);
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (self.state >> 33) as i64;
        if metric.is_multiple_of(2) {
            self.values[metric] += random % 201 - 100;
            self.values[metric] as f64 / 100.0
        } else {
            self.values[metric] += random % 1000;
            self.values[metric] as f64
        }
    }
}

fn send(daemon: &Daemon, walks: &mut Walks, minute: i64) {
    let time = START + minute * 60;
    daemon.set_clock(time);
    let lines: String =
        (0..METRICS).map(|metric| format!("disk.m{metric} {} {time}\n", walks.step(metric))).collect();
    daemon.sender().try_bytes(lines.as_bytes()).unwrap();
    daemon.applied_at((minute as u64 + 1) * METRICS as u64);
}

/// Flushes the daemon, then the memtable of the server into the file of this number.
fn flush(daemon: &Daemon, node: &Cluster, keyspace: &str, number: usize) {
    daemon.flush();
    wait_until("the spool to be empty", || unsent(daemon) == 0);
    let mut cql = node.nodes()[0].connect().unwrap();
    let mut period = |ms: u32| {
        cql.query(&format!("ALTER TABLE {keyspace}.{TABLE} WITH memtable_flush_period_in_ms = {ms}")).unwrap()
    };
    period(1000);
    wait_until("the memtable to be flushed", || files(node, keyspace, "-Data.db").len() == number);
    period(900_000);
}

/// The files of the table whose names end so.
fn files(node: &Cluster, keyspace: &str, end: &str) -> Vec<PathBuf> {
    let keyspace = node.nodes()[0].data().join(keyspace);
    let tables = std::fs::read_dir(keyspace).into_iter().flatten().flatten().map(|entry| entry.path());
    let table =
        tables.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(TABLE)));
    let files = table.flat_map(|path| std::fs::read_dir(path).into_iter().flatten().flatten());
    files
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && path.to_string_lossy().ends_with(end))
        .collect()
}
