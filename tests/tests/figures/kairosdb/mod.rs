//! Figures of Plumbago and of a real KairosDB 1.3.0, measured in one run on one machine: the daemon on the
//! embedded store, KairosDB on a node of Cassandra. Both get the same points, and their answers are compared
//! before they are timed.
//!
//! Sizes, each with `PLUMBAGO_FIGURES_` before it: `KAIROSDB_SERIES` (1000) and `KAIROSDB_POINTS` of each
//! (500) for the writes; `KAIROSDB_REQUESTS` (200) timed requests of a query; `KAIROSDB_CITIES` (30,000), and
//! `KAIROSDB_CITIES_OURS` (as many) if the daemon is to have more of them; `KAIROSDB_IMPORT_SERIES` (2000)
//! and `KAIROSDB_IMPORT_POINTS` of each (1000); `KAIROSDB_BYTES_SERIES` (20) of three weeks each.

mod bytes;
mod cities;
mod cities_data;
mod client;
mod import;
mod reads;
mod row;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plumbago_cassandra_node::{Cluster, CommitlogSync, Options, server};
use plumbago_kairosdb_node::kairosdb::{Backend, KairosDb};
use plumbago_tests::daemon::Setup;
use serde_json::{Value, json};

use super::cpu_of;
use client::Client;

const WRITE: &str = "/api/v1/datapoints";
const QUERY: &str = "/api/v1/datapoints/query";
const QUERY_TAGS: &str = "/api/v1/datapoints/query/tags";

/// Storage rules for points of each minute.
const MINUTES: &str = "[all]\npattern = .*\nretentions = 60s:60d\n";

/// KairosDB begins a new storage row every three weeks, counted from 1970.
const PERIOD: i64 = 21 * 86_400;

/// The Java heap of KairosDB.
const HEAP_MIB: u32 = 1024;

/// A node configured as in production, except for its size.
fn node() -> Option<Cluster> {
    let options = Options {
        heap_mib: 2048,
        quick: false,
        commitlog_sync: CommitlogSync::Periodic,
        // By default a flush compresses with LZ4, and only a compaction uses the compression of the table.
        more: vec!["flush_compression: table".to_owned()],
        ..Options::default()
    };
    server::cluster_for_test(1, &options)
}

/// A KairosDB on a new keyspace of the node.
fn kairosdb_on(node: &Cluster, keyspace: &str) -> Option<KairosDb> {
    let server = node.nodes()[0].socket();
    let backend = Backend::Cassandra { server, keyspace, row_time_unit: "MILLISECONDS" };
    let started = KairosDb::start_with_heap(backend, HEAP_MIB);
    server::provided(started.as_ref()).is_some().then_some(started.ok()).flatten()
}

/// The settings of a daemon on the embedded store that takes KairosDB's points.
fn setup_of(schemas: &str) -> Setup {
    let mut setup = Setup::new();
    setup.schemas(schemas);
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = average\n");
    setup.set("api.point_writes", "true").set("ingest.opentsdb.listen", "127.0.0.1:0");
    setup.set("maintenance.rows_per_second", "0").set("log.level", "warn");
    setup
}

fn process_of(node: &Cluster) -> u32 {
    node.nodes()[0].id().unwrap()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// The start of the latest storage period of KairosDB that has ended.
fn whole_period() -> i64 {
    (now() / PERIOD - 1) * PERIOD
}

/// Posts bodies with points to each of these servers, and returns how many bodies there were.
fn send(addresses: &[SocketAddr], bodies: impl Iterator<Item = String>) -> usize {
    let mut clients: Vec<Client> = addresses.iter().map(|address| Client::connect(*address)).collect();
    let mut sent = 0;
    for body in bodies {
        for client in &mut clients {
            let (status, said) = client.post(WRITE, &body);
            assert_eq!(status, 204, "{}", String::from_utf8_lossy(&said));
        }
        sent += 1;
    }
    sent
}

/// The points of one series, as an object of a body. A value without a decimal point is a whole number to KairosDB,
/// which is another type.
fn object<V: Display>(metric: &str, tags: &str, points: impl Iterator<Item = (i64, V)>) -> String {
    let points: Vec<String> = points.map(|(time, value)| format!("[{time}000,{value}]")).collect();
    format!(r#"{{"name":"{metric}","tags":{{{tags}}},"datapoints":[{}]}}"#, points.join(","))
}

/// Waits until processes use less than a tenth of a core each, for three seconds.
fn wait_idle(processes: &[u32]) {
    const QUIET: Duration = Duration::from_secs(3);
    /// Timeout for a server that never becomes idle.
    const LONGEST: Duration = Duration::from_secs(3600);
    let begun = Instant::now();
    let used = || processes.iter().map(|process| cpu_of(*process)).sum::<f64>();
    loop {
        let before = used();
        std::thread::sleep(QUIET);
        if used() - before < 0.1 * QUIET.as_secs_f64() * processes.len() as f64 {
            return;
        }
        assert!(begun.elapsed() < LONGEST, "the servers are still busy");
    }
}

/// Points by time in milliseconds.
type Points = Vec<(i64, f64)>;

/// The results of an answer: the tags with their values, and the points of each.
fn results(answer: &Value) -> Vec<(String, Points)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let tags = |result: &Value| {
        let all = result["tags"].as_object().unwrap().iter();
        let values = |values: &Value| -> BTreeSet<String> {
            list(values).iter().map(|value| value.as_str().unwrap().to_owned()).collect()
        };
        let all: BTreeMap<&String, BTreeSet<String>> = all.map(|(tag, of)| (tag, values(of))).collect();
        format!("{} {all:?}", result["name"])
    };
    let point = |pair: &Value| (pair[0].as_i64().unwrap(), pair[1].as_f64().unwrap());
    let result = |result: &Value| -> (String, Points) {
        (tags(result), list(&result["values"]).iter().map(point).collect())
    };
    let queries = list(&answer["queries"]);
    let mut all: Vec<(String, Points)> =
        queries.iter().flat_map(|query| list(&query["results"])).map(|found| result(&found)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Queries both servers, checks that the answers have equal values, and returns the results. Results without
/// points are left out, because an index may list series whose points are gone.
fn same_results(real: SocketAddr, ours: SocketAddr, path: &str, query: &Value) -> Vec<(String, Points)> {
    let of = |address| {
        let mut all = results(&Client::connect(address).ask(path, query));
        all.retain(|(_, points)| path == QUERY_TAGS || !points.is_empty());
        all
    };
    let (real, ours) = (of(real), of(ours));
    let tags = |all: &[(String, Points)]| all.iter().map(|(tags, _)| tags.clone()).collect::<Vec<_>>();
    assert_eq!(tags(&ours), tags(&real), "{query}");
    for ((tags, ours), (_, real)) in ours.iter().zip(&real) {
        assert_eq!(ours.len(), real.len(), "{tags}: {query}");
        for (ours, real) in ours.iter().zip(real) {
            let is_same = ours.0 == real.0 && (ours.1 - real.1).abs() <= real.1.abs() * 1e-9;
            assert!(is_same, "{tags}: ours {ours:?}, KairosDB's {real:?}: {query}");
        }
    }
    ours
}

/// From and until, in seconds since the epoch.
type Span = (i64, i64);

/// The number of points of a metric that a server has in a time range, and the sum of their values.
fn count_and_sum(address: SocketAddr, metric: &str, (from, until): Span) -> (u64, f64) {
    let sum = json!({"name": "sum", "sampling": {"value": 10, "unit": "years"}});
    let query = json!({"start_absolute": from * 1000, "end_absolute": until * 1000 - 1,
        "metrics": [{"name": metric, "aggregators": [sum]}]});
    let answer = Client::connect(address).ask(QUERY, &query);
    let count = answer["queries"][0]["sample_size"].as_u64().unwrap();
    (count, results(&answer).iter().flat_map(|(_, points)| points).map(|(_, value)| value).sum())
}

/// Checks that both have the same number of points of some metrics with the same sum, and returns the number.
fn same_points(real: SocketAddr, ours: SocketAddr, metrics: &[String], span: Span) -> u64 {
    let both = metrics.iter().map(|metric| {
        let (real, ours) = (count_and_sum(real, metric, span), count_and_sum(ours, metric, span));
        let is_same = real.0 == ours.0 && (real.1 - ours.1).abs() <= real.1.abs() * 1e-9;
        assert!(is_same, "{metric}: ours {ours:?}, KairosDB's {real:?}");
        real.0
    });
    both.sum()
}

/// Bytes of the files of a keyspace's tables whose names begin with one of these texts. The node must be stopped, so
/// that the files are complete.
fn bytes_of_tables(node: &Cluster, keyspace: &str, tables: &[&str]) -> u64 {
    let keyspace = node.nodes()[0].data().join("data").join(keyspace);
    let entries =
        |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        tables.iter().any(|table| name.starts_with(table))
    };
    let files = entries(keyspace).filter(is_one).flat_map(entries).filter(|path| path.is_file());
    files.map(|file| file.metadata().unwrap().len()).sum()
}

/// The JSON object that a command prints.
fn json_of(output: &str) -> Value {
    let line = output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no JSON: {output}"))).unwrap()
}
