//! Processor time for points of existing series, sent by requests and by lines.

use std::net::SocketAddr;

use plumbago_cassandra_node::Cluster;
use plumbago_kairosdb_node::kairosdb::KairosDb;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use serde_json::Value;

use super::super::{amount, cpu_of};
use super::row::{Row, heading};
use super::{MINUTES, json_of, kairosdb_on, node, now, process_of, same_points, setup_of};

/// Number of points in a request.
const BATCH: &str = "2000";
/// KairosDB must use at least this many times the daemon's processor time.
const RATIO: f64 = 20.0;

/// A protocol of `plumbago bench load`, and the target in seconds per million points.
const PROTOCOLS: [(&str, f64); 2] = [("datapoints", 1.0), ("put", 0.6)];

struct Sizes {
    series: usize,
    points: usize,
}

impl Sizes {
    /// Number of all points, including the one that creates each series.
    fn total(&self) -> usize {
        self.series * (self.points + 1)
    }
}

#[test]
#[ignore = "a figure"]
fn points_of_known_series() {
    let Some(node) = node() else { return };
    let Some(real) = kairosdb_on(&node, "writes") else { return };
    let setup = setup_of(MINUTES);
    let daemon = setup.start();
    let sizes = Sizes { series: amount("KAIROSDB_SERIES", 1000), points: amount("KAIROSDB_POINTS", 500) };
    // The time of the first point of a load, rounded to minutes.
    let from = now() - 60 * (sizes.points as i64 + 10);
    heading(&format!(
        "CPU s per million points until idle, {} series of three tags, {} points of each",
        sizes.series, sizes.points
    ));
    for (protocol, target) in PROTOCOLS {
        measure(&node, &real, (&setup, &daemon), (protocol, target), &sizes);
        let metrics = same_metrics(&real, &daemon, protocol);
        let points = same_points(real.http(), daemon.api(), &metrics, (from, now() + 60));
        assert_eq!(points, sizes.total() as u64, "{protocol}");
    }
    assert_eq!(daemon.ledger().rejected, 0);
    daemon.stop_well();
}

fn measure(
    node: &Cluster,
    real: &KairosDb,
    (setup, daemon): (&Setup, &Daemon),
    (protocol, target): (&str, f64),
    sizes: &Sizes,
) {
    let is_put = protocol == "put";
    let to = if is_put { daemon.address("opentsdb tcp") } else { daemon.api() };
    let ours = load(setup, protocol, (to, daemon.id()), sizes);
    let before = cpu_of(process_of(node));
    let to = if is_put { real.telnet() } else { real.http() };
    let theirs = load(setup, protocol, (to, real.id()), sizes);
    let servers = (cpu_of(process_of(node)) - before) / sizes.total() as f64 * 1e6;
    let what = if is_put { "`put` lines" } else { "requests of 2,000 points" };
    let aim = format!("at most {target}, and {RATIO} × less");
    let met = ours <= target && theirs >= RATIO * ours;
    Row::of(what, &aim, "s", ours, theirs).met(met).print();
    let figure = format!("{what}: Cassandra's, with the creation of the series");
    let server = Row::of(&figure, "", "s", 0.0, servers);
    Row { ours: "none".to_owned(), ..server }.print();
}

/// Sends the points. Returns the processor seconds of the process for a million of them.
fn load(setup: &Setup, protocol: &str, (to, process): (SocketAddr, u32), sizes: &Sizes) -> f64 {
    let (address, process) = (to.to_string(), process.to_string());
    let (series, points) = (sizes.series.to_string(), sizes.points.to_string());
    let prefix = prefix(protocol);
    let mut command = setup.command(&["bench", "load", "--json", "--protocol", protocol, "--batch", BATCH]);
    command.args(["--addr", &address, "--admin", "", "--pid", &process, "--prefix", &prefix]);
    command.args(["--metrics", &series, "--points", &points, "--connections", "4"]);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let report = json_of(&String::from_utf8_lossy(&ended.stdout));
    let used = report["server_until_idle_CPU_s_M_points"].as_f64();
    used.unwrap_or_else(|| panic!("no processor time: {report}"))
}

/// The prefix of the metrics of a protocol, so that each protocol has separate series.
fn prefix(protocol: &str) -> String {
    format!("by_{protocol}.")
}

/// Checks that both servers have the same metrics of a load.
fn same_metrics(real: &KairosDb, daemon: &Daemon, protocol: &str) -> Vec<String> {
    let names = |address| {
        let answer = http::get(address, &format!("/api/v1/metricnames?prefix={}", prefix(protocol)));
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let names = answer["results"].as_array().unwrap().iter();
        let mut names: Vec<String> = names.map(|name| name.as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let metrics = names(daemon.api());
    assert!(!metrics.is_empty());
    assert_eq!(metrics, names(real.http()));
    metrics
}
