//! Measures the disk space of the same points in three layouts: KairosDB's tables, BigGraphite's tables,
//! which our store on Cassandra writes, and the embedded store.

use std::net::SocketAddr;

use plumbago_cassandra_node::Cluster;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::wait::wait_until;

use super::super::disk::Walks;
use super::super::{amount, setup, unsent};
use super::row::{Row, heading, shown};
use super::{MINUTES, PERIOD, bytes_of_tables, json_of, kairosdb_on, node, object, process_of, same_points};
use super::{send, setup_of, wait_idle, whole_period};

/// KairosDB's keyspace, and that of our store on Cassandra.
const KEYSPACES: [&str; 2] = ["bytes_kairosdb", "bytes_biggraphite"];
/// The table of [`MINUTES`].
const TABLE: &str = "datapoints_86400p_60s_0";
const METRIC: &str = "bytes";
const DAY: i64 = 86_400;
/// Size of the key of a row of the embedded store: the id of the metric and the number of the block.
const EMBEDDED_KEY: f64 = 20.0;
/// Size of a partition key of BigGraphite's tables, in bytes: the id of the metric and the start.
const BIGGRAPHITE_KEY: usize = 24;

/// Bytes per point: of the keys alone before compression, and of everything on the disk.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    keys: f64,
    all: f64,
}

/// Measures series that have a point a minute for three weeks. That is one storage row of KairosDB, the best
/// case for its keys.
#[test]
#[ignore = "a figure"]
fn bytes_of_the_same_points() {
    let Some(mut node) = node() else { return };
    let Some(real) = kairosdb_on(&node, KEYSPACES[0]) else { return };
    let series = amount("KAIROSDB_BYTES_SERIES", 20);
    let from = whole_period();
    let mut embedded = setup_of(MINUTES);
    let mut cassandra = setup(&node, KEYSPACES[1], MINUTES);
    cassandra.set("api.point_writes", "true").set("engine.flush_interval", "1d");
    let daemons = [embedded.clock(from).start(), cassandra.clock(from).start()];
    fill(&daemons, real.http(), series, from);
    wait_idle(&[real.id(), process_of(&node)]);
    let total = series as u64 * (PERIOD / 60) as u64;
    for daemon in &daemons {
        let points = same_points(real.http(), daemon.api(), &[METRIC.to_owned()], (from, from + PERIOD));
        assert_eq!(points, total);
        daemon.flush();
    }
    wait_until("the spool to be empty", || unsent(&daemons[1]) == 0);
    daemons.into_iter().for_each(|daemon| drop(daemon.stop_well()));
    let keys = keys_on(&node);
    drop(real);
    // The node flushes all memtables when it stops.
    node.node(0).stop();
    let points = total as f64;
    let of = |keys: usize, bytes: u64| Bytes { keys: keys as f64 / points, all: bytes as f64 / points };
    let tables = ["data_points-", "row_keys-", "row_key_time_index-", "string_index-"];
    let kairosdb = of(keys[0], bytes_of_tables(&node, KEYSPACES[0], &tables));
    let biggraphite = of(keys[1], bytes_of_tables(&node, KEYSPACES[1], &[TABLE]));
    show(series, merged(&embedded, total), biggraphite, kairosdb);
}

/// Sends the points to all three stores, day by day. The daemons' clocks move with the points.
fn fill(daemons: &[Daemon], real: SocketAddr, series: usize, from: i64) {
    let mut walks = Walks::default();
    let addresses: Vec<SocketAddr> = daemons.iter().map(Daemon::api).chain([real]).collect();
    for day in (from..from + PERIOD).step_by(DAY as usize) {
        daemons.iter().for_each(|daemon| daemon.set_clock(day + DAY));
        let body = |number: usize| {
            let points = (day..day + DAY).step_by(60).map(|time| (time, text(number, walks.step(number))));
            let tags = format!(r#""host":"host{number:03}","dc":"dc{}""#, number % 4);
            format!("[{}]", object(METRIC, &tags, points))
        };
        assert_eq!(send(&addresses, (0..series).map(body)), series);
        let sent = series as u64 * ((day + DAY - from) / 60) as u64;
        daemons.iter().for_each(|daemon| daemon.applied_at(sent));
    }
}

/// Writes a value as text. All values of a series have the same type, so that KairosDB has one row for it:
/// [`Walks`] makes decimals and counters in turn.
fn text(number: usize, value: f64) -> String {
    if number.is_multiple_of(2) { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Bytes of all keys of partitions: of KairosDB's points, and of BigGraphite's.
fn keys_on(node: &Cluster) -> [usize; 2] {
    let mut cql = node.nodes()[0].connect().unwrap();
    let rows = cql.query(&format!("SELECT DISTINCT key FROM {}.data_points", KEYSPACES[0])).unwrap();
    let keys = rows.iter().filter_map(|row| row.bytes(0));
    // KairosDB has metrics of its own too.
    let ours = keys.filter(|key| key.starts_with(METRIC.as_bytes()) && key.get(METRIC.len()) == Some(&0));
    let of_kairosdb: usize = ours.map(<[u8]>::len).sum();
    let all = format!("SELECT DISTINCT metric, time_start_ms FROM {}.{TABLE}", KEYSPACES[1]);
    let of_biggraphite = cql.query(&all).unwrap().len() * BIGGRAPHITE_KEY;
    assert!(of_kairosdb > 0 && of_biggraphite > 0);
    [of_kairosdb, of_biggraphite]
}

/// The bytes of the embedded store of a stopped daemon, after its blocks were merged as at the end of each day.
fn merged(setup: &Setup, total: u64) -> Bytes {
    let report = json_of(&setup.run_well(&["bench", "disk", "--merge", "--json"]));
    let ending = |what: &str| {
        let mut fields = report.as_object().unwrap().iter();
        fields.find(|(name, _)| name.ends_with(what)).and_then(|field| field.1.as_f64())
    };
    let (mut points, mut rows, mut bytes) = (0.0, 0.0, 0.0);
    // Blocks without another block to merge with stay as they are.
    for kind in ["fresh", "merged"] {
        let Some(some) = ending(&format!("raw_{kind}_points")) else { continue };
        points += some;
        rows += some / ending(&format!("raw_{kind}_per_row_points")).unwrap();
        bytes += some * ending(&format!("raw_{kind}_per_point_B")).unwrap();
    }
    assert_eq!(points as u64, total, "{report}");
    Bytes { keys: EMBEDDED_KEY * rows / points, all: bytes / points }
}

fn show(series: usize, embedded: Bytes, biggraphite: Bytes, kairosdb: Bytes) {
    heading(&format!("Bytes a point, {series} series of a point a minute for three weeks"));
    let both = |figure, ours: f64, theirs: f64| Row::of(figure, "", "B", ours, theirs).print();
    both("keys, embedded store", embedded.keys, kairosdb.keys);
    both("keys, BigGraphite's tables", biggraphite.keys, kairosdb.keys);
    both("all on the disk, embedded store, merged", embedded.all, kairosdb.all);
    both("all on the disk, BigGraphite's tables", biggraphite.all, kairosdb.all);
    println!(
        "\nKeys are as they are, before compression. Cassandra's files are as it flushed them; each row has the 4 bytes \
         (KairosDB) or 2 bytes (BigGraphite) of its time in the partition besides: with them the keys take {} and {} bytes.",
        shown(kairosdb.keys + 4.0),
        shown(biggraphite.keys + 2.0)
    );
}
