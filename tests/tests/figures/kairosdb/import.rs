//! Moving to Plumbago: KairosDB's own export of a keyspace, our import of the keyspace, and our import of the
//! exported lines.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use plumbago_cassandra_node::Cluster;
use plumbago_kairosdb_node::kairosdb::KairosDb;
use plumbago_tests::daemon::Setup;
use serde_json::Value;

use super::super::{amount, cpu_of};
use super::row::{Row, heading, shown};
use super::{MINUTES, json_of, kairosdb_on, node, object, process_of, same_points, send, setup_of};
use super::{wait_idle, whole_period};

const KEYSPACE: &str = "import";
const METRICS: usize = 10;
/// Approximate number of points in a request.
const BATCH: usize = 2000;
/// The import must be faster than the export by at least this factor.
const RATIO: f64 = 3.0;
/// Minimum number of points that an import of lines must store per second.
const RATE: f64 = 1e6;

/// The duration of a command, and the processor time that the command and Cassandra used meanwhile, in
/// seconds.
#[derive(Debug, Clone, Copy)]
struct Took {
    seconds: f64,
    own: f64,
    server: f64,
}

#[test]
#[ignore = "a figure"]
fn the_history_of_a_keyspace() {
    let Some(node) = node() else { return };
    let Some(real) = kairosdb_on(&node, KEYSPACE) else { return };
    let (series, points) = (amount("KAIROSDB_IMPORT_SERIES", 2000), amount("KAIROSDB_IMPORT_POINTS", 1000));
    let total = (series * points) as f64;
    let from = whole_period();
    fill(&node, &real, (series, points), from);
    heading(&format!("The way over of {series} series of {points} points each"));

    let by_keyspace = setup_of(MINUTES);
    let lines = by_keyspace.path().join("export.txt");
    let exported = took(&node, || real.export(&lines).unwrap());
    let bytes = lines.metadata().unwrap().len();
    let contact = node.nodes()[0].contact_point();
    let keyspace = ["--keyspace", KEYSPACE, "--contact-points", &contact];
    let (imported, report) = import(&node, &by_keyspace, &keyspace);
    check(&real, &by_keyspace, &report, (series, points), from);
    let aim = format!("{RATIO} × as fast as the export");
    let row =
        Row::of("the keyspace: import, and KairosDB's export", &aim, "s", imported.seconds, exported.seconds);
    row.met(exported.seconds >= RATIO * imported.seconds).print();
    let million = total / 1e6;
    let own = ("CPU s per million points", imported.own / million, exported.own / million);
    Row::of("the same, of the command", "", own.0, own.1, own.2).print();
    let server = (imported.server / million, exported.server / million);
    Row::of("the same, of Cassandra", "", own.0, server.0, server.1).print();

    let by_lines = setup_of(MINUTES);
    let (imported, report) = import(&node, &by_lines, &[lines.to_str().unwrap()]);
    check(&real, &by_lines, &report, (series, points), from);
    let rate = total / imported.seconds;
    let while_storing = total / report["seconds"].as_f64().unwrap();
    for (figure, rate) in [
        ("points from lines per second, the whole command", rate),
        ("without its start and end", while_storing),
    ] {
        Row {
            figure,
            target: "at least 1M",
            ours: shown(rate),
            kairosdb: String::new(),
            ratio: None,
            met: Some(rate >= RATE),
        }
        .print();
    }
    println!(
        "\nThe import from lines ({} MB) took {} CPU s per million points.",
        bytes / 1_000_000,
        shown(imported.own / million)
    );
}

/// Writes the points to KairosDB, and waits until it has stored them.
fn fill(node: &Cluster, real: &KairosDb, (series, points): (usize, usize), from: i64) {
    let of_series = |number: usize| {
        let tags = format!(r#""host":"h{:04}","dc":"dc{}""#, number / METRICS, number % 4);
        let value = move |at: usize| ((at * 31 + number * 7) % 10_000) as f64 / 4.0 + 0.125;
        let points = (0..points).map(|at| (from + 60 * at as i64, value(at)));
        object(&metric(number), &tags, points)
    };
    let numbers: Vec<usize> = (0..series).collect();
    let each = (BATCH / points.max(1)).max(1);
    let bodies = numbers.chunks(each).map(|part| {
        let objects: Vec<String> = part.iter().map(|number| of_series(*number)).collect();
        format!("[{}]", objects.join(","))
    });
    assert!(send(&[real.http()], bodies) > 0);
    wait_idle(&[real.id(), process_of(node)]);
}

fn metric(number: usize) -> String {
    format!("import.m{}", number % METRICS)
}

/// Imports a source. Returns its duration, and the report of the command.
fn import(node: &Cluster, setup: &Setup, from: &[&str]) -> (Took, Value) {
    let mut output = String::new();
    let arguments = [&["import-kairosdb", "--json"], from].concat();
    let took = took(node, || output = setup.run_well(&arguments));
    (took, json_of(&output))
}

/// Checks that everything was imported: a daemon must answer queries as KairosDB does.
fn check(real: &KairosDb, setup: &Setup, report: &Value, (series, points): (usize, usize), from: i64) {
    let total = (series * points) as u64;
    // KairosDB has written some metrics of its own.
    assert!(report["points"].as_u64() >= Some(total), "{report}");
    assert!(report["skipped"].as_object().unwrap().is_empty(), "{report}");
    let daemon = setup.start();
    let metrics: Vec<String> = (0..METRICS.min(series)).map(metric).collect();
    let times = (from, from + 60 * points as i64);
    assert_eq!(same_points(real.http(), daemon.api(), &metrics, times), total);
    daemon.stop_well();
}

/// Runs a command as a child of this process, and measures it.
fn took(node: &Cluster, command: impl FnOnce()) -> Took {
    let (begun, own, server) = (Instant::now(), cpu_of_children(), cpu_of(process_of(node)));
    command();
    Took {
        seconds: begun.elapsed().as_secs_f64(),
        own: cpu_of_children() - own,
        server: cpu_of(process_of(node)) - server,
    }
}

/// Processor time of the children of this process that have ended, in seconds.
fn cpu_of_children() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
