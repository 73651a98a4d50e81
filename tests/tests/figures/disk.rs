//! Measures the disk space of a point on the server, in bytes.

use std::path::PathBuf;

use plumbago_cassandra_node::{Cluster, Options, server};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::wait::wait_until;

use super::unsent;

const TABLE: &str = "datapoints_1440p_60s_0";
const METRICS: usize = 1000;
/// Number of points of each metric, one per minute.
const POINTS: i64 = 1440;
/// A midnight in the future, so that no row has a TTL of its own.
const START: i64 = 1_900_000_000 / 86_400 * 86_400;

/// Measures one day of 1,000 metrics with a point a minute, as the server writes it when it stops. Half of
/// the metrics are random walks with two decimals, half are counters.
#[test]
#[ignore = "a figure"]
fn bytes_of_a_row() {
    // By default a flush compresses with LZ4, and only a compaction uses the compression of the table.
    let more = vec!["flush_compression: table".to_owned()];
    let options = Options { heap_mib: 2048, quick: false, more, ..Options::default() };
    let Some(mut node) = server::cluster_for_test(1, &options) else { return };
    println!("\n{:<12} {:>14} {:>14}", "compression", "bytes", "bytes a row");
    for compression in ["lz4", "zstd"] {
        let bytes = bytes_with(&mut node, compression);
        println!("{compression:<12} {bytes:>14} {:>14.2}", bytes as f64 / (METRICS as f64 * POINTS as f64));
    }
}

fn bytes_with(node: &mut Cluster, compression: &str) -> u64 {
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
    for minute in 0..POINTS {
        send(&daemon, &mut walks, minute);
    }
    daemon.flush();
    wait_until("the spool to be empty", || unsent(&daemon) == 0);
    drop(daemon);
    // The node flushes all memtables when it stops.
    node.node(0).stop();
    let bytes = files(node, &keyspace).iter().map(|file| file.metadata().unwrap().len()).sum();
    node.node(0).start().unwrap();
    bytes
}

/// Values that change by pseudo-random steps.
#[derive(Default)]
pub(super) struct Walks {
    state: u64,
    values: Vec<i64>,
}

impl Walks {
    /// The next value of one of [`METRICS`].
    pub(super) fn step(&mut self, metric: usize) -> f64 {
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

/// The files of the table.
fn files(node: &Cluster, keyspace: &str) -> Vec<PathBuf> {
    let keyspace = node.nodes()[0].data().join("data").join(keyspace);
    let tables = std::fs::read_dir(keyspace).into_iter().flatten().flatten().map(|entry| entry.path());
    let table =
        tables.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(TABLE)));
    let files = table.flat_map(|path| std::fs::read_dir(path).into_iter().flatten().flatten());
    files.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}
