//! Measures points, from lines to rows that the server has acknowledged.

use std::time::{Duration, Instant};

use plumbago_cassandra_node::{Cluster, server};
use plumbago_tests::biggraphite::{BigGraphite, ONE};
use plumbago_tests::daemon::Daemon;
use plumbago_tests::send::{Point, lines};
use plumbago_tests::wait::wait_until;

use super::bare::{Bare, table};
use super::{config, cpu_of, heading, median_and_worst, node, setup, show, took, unsent};

const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1m:1d,1h:30d\n";
const METRICS: usize = 10_000;
/// Number of minutes in an hour.
const SLOTS: u32 = 60;
const ROUNDS: i64 = 3;
/// Number of points of a metric in each call of BigGraphite. A larger number does not make it faster.
const PER_CALL: usize = 10;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("dc1.host{:05}.kind{}.m{}", n / 40, n / 10 % 4, n % 10)).collect()
}

/// The hour of a round. It is in the future, so that no row has a TTL of its own.
fn hour(round: i64) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    (now as i64 / 3600 + 1 + round) * 3600
}

/// The lines of each minute, with one point per metric.
fn an_hour(names: &[String], hour: i64) -> Vec<String> {
    let minute = |slot: i64| {
        let points: Vec<Point> =
            names.iter().map(|name| Point::new(name, hour + slot * 60, slot as f64)).collect();
        lines(&points)
    };
    (0..i64::from(SLOTS)).map(minute).collect()
}

/// Sends the lines of an hour. The clock is set to each minute before its lines.
fn feed_hour(daemon: &Daemon, hour: i64, minutes: &[String]) {
    for (minute, lines) in (1..).zip(minutes) {
        daemon.set_clock(hour + minute * 60);
        feed(daemon, lines, lines.lines().count());
    }
}

/// Sends lines and waits until they are received.
fn feed(daemon: &Daemon, lines: &str, points: usize) {
    let before = daemon.ledger().received;
    daemon.sender().try_bytes(lines.as_bytes()).unwrap();
    daemon.ledger_at(before + points as u64);
}

/// Waits until all rows are acknowledged. Polls rarely, because each request costs the daemon processor time.
fn drained(daemon: &Daemon) {
    wait_until("the spool to be empty", || {
        std::thread::sleep(Duration::from_millis(300));
        unsent(daemon) == 0
    });
}

/// Creates the metrics, and waits until the server has acknowledged all rows.
fn created(daemon: &Daemon, names: &[String], time: i64) {
    let points: Vec<Point> = names.iter().map(|name| Point::new(name, time, 0.0)).collect();
    feed(daemon, &lines(&points), points.len());
    daemon.wait_names(names.len());
    daemon.flush();
    drained(daemon);
}

#[test]
#[ignore = "a figure"]
fn points_to_acknowledged_rows() {
    let Some(node) = node() else { return };
    let Some(mut biggraphite) = BigGraphite::start(node.nodes()[0].socket(), "points", 64) else { return };
    let mut setup = setup(&node, "points", SCHEMAS);
    let names = names(METRICS);
    let first = hour(0);
    // One flush per hour, after all of its points.
    let daemon = setup.set("engine.flush_interval", "1d").clock(first).start();
    created(&daemon, &names, first - 60);
    biggraphite.open(ONE, 0, Some(1));
    let bare = Bare::connect(&node, config(&node, "points"));
    let points = METRICS * SLOTS as usize;
    for round in 0..ROUNDS {
        let hour = first + round * 3600;
        let lines = an_hour(&names, hour);
        heading(&format!("round {}: {METRICS} metrics, {SLOTS} points of each", round + 1));
        let daemons = took(daemon.id(), || {
            feed_hour(&daemon, hour, &lines);
            daemon.flush();
            drained(&daemon);
        });
        show("the daemon: lines to acknowledged rows", points, &daemons);
        let bares = took(std::process::id(), || {
            bare.points(table(60, 1440, false), &names, (hour / 60) as u32, SLOTS);
            bare.points(table(3600, 720, true), &names, (hour / 3600) as u32, 1);
        });
        show("a bare loop: the same rows", points, &bares);
        let theirs = biggraphite.load(ONE, &names, (hour, 60, SLOTS), PER_CALL);
        let theirs = super::Took { seconds: theirs.0, cpu: theirs.1 };
        show(&format!("BigGraphite: {PER_CALL} points a call"), points, &theirs);
        println!("BigGraphite's processor time / the daemon's: {:.1}", theirs.cpu / daemons.cpu);
    }
    daemon.stop_well();
}

#[test]
#[ignore = "a figure"]
fn a_full_spool_drains() {
    const MANY: usize = 4 * METRICS;
    let Some(node) = node() else { return };
    let mut setup = setup(&node, "drain", SCHEMAS);
    let names = names(MANY);
    let first = hour(0);
    // One flush per hour, after all of its points.
    setup.set("engine.flush_interval", "1d");
    // As after a long outage, many rows are spooled before the first one is sent.
    let daemon = setup.set("spool.linger", "1m").clock(first).start();
    created(&daemon, &names, first - 60);
    let bare = Bare::connect(&node, config(&node, "drain"));
    let rows = MANY * SLOTS as usize;
    for round in 0..ROUNDS {
        let hour = first + round * 3600;
        heading(&format!("round {}: {MANY} metrics, {SLOTS} rows of each", round + 1));
        node.nodes()[0].pause();
        feed_hour(&daemon, hour, &an_hour(&names, hour));
        // A slow disk may refuse commits for a moment. The next flush repeats the commits.
        wait_until("all of it to be in the spool", || {
            daemon.flush();
            unsent(&daemon) >= rows as u64
        });
        drain(&node, &daemon);
        let bares = took(std::process::id(), || {
            bare.points(table(60, 1440, false), &names, (hour / 60) as u32, SLOTS);
            bare.points(table(3600, 720, true), &names, (hour / 3600) as u32, 1);
        });
        show("a bare loop: the same rows in the same requests", rows + MANY, &bares);
    }
    daemon.stop_well();
}

/// Measures from the first row that the server accepts again to the last one.
fn drain(node: &Cluster, daemon: &Daemon) {
    node.nodes()[0].resume();
    let waiting = unsent(daemon);
    wait_until("the first rows", || unsent(daemon) < waiting);
    let (start, cpu, left) = (Instant::now(), cpu_of(daemon.id()), unsent(daemon));
    let requests = |daemon: &Daemon| daemon.counters().sum("plumbago_cassandra_write_requests_total");
    let before = requests(daemon);
    drained(daemon);
    let took = super::Took { seconds: start.elapsed().as_secs_f64(), cpu: cpu_of(daemon.id()) - cpu };
    let rows_per_request = left as f64 / (requests(daemon) - before) as f64;
    show(&format!("the spool drains: {rows_per_request:.0} rows a request"), left as usize, &took);
}

/// Adds a column to a table of a thousand rows and to one of ten million, and drops it.
#[test]
#[ignore = "a figure"]
fn altering_does_not_wait_for_rows() {
    const TRIES: usize = 9;
    let Some(node) = node() else { return };
    let (few, many) = (table(60, 2880, false), table(60, 1440, false));
    let _setup = setup(
        &node,
        "altering",
        "[a]\npattern = ^a\nretentions = 1m:2d\n[b]\npattern = .*\nretentions = 1m:1d\n",
    );
    let bare = Bare::connect(&node, config(&node, "altering"));
    let slot = (hour(0) / 60) as u32;
    bare.points(few, &names(17), slot, SLOTS);
    bare.points(many, &names(10_000_000 / SLOTS as usize), slot, SLOTS);
    let mut cql = node.nodes()[0].connect().unwrap();
    println!("\n{:<28} {:>16} {:>16}", "ms, median of nine", "ADD", "DROP");
    for (what, table) in [("1,000 rows", few), ("10,000,000 rows", many), ("1,000 rows", few)] {
        let name = format!("altering.{}", table.name());
        let mut median = |change: &dyn Fn(usize) -> String| {
            let mut once = |at| {
                let begun = Instant::now();
                cql.query(&format!("ALTER TABLE {name} {}", change(at))).unwrap();
                begun.elapsed().as_secs_f64() * 1e3
            };
            median_and_worst(&mut (0..TRIES).map(&mut once).collect::<Vec<_>>()).0
        };
        let added = median(&|at| format!("ADD extra{at} int"));
        let dropped = median(&|at| format!("DROP extra{at}"));
        println!("{what:<28} {added:>16.0} {dropped:>16.0}");
    }
}

/// Counts requests. It does not depend on speed, so it runs with the ordinary tests.
#[test]
fn few_requests_for_each_point() {
    let Some(server) = server::for_tests() else { return };
    let cases = [
        // Metrics with points every second, flushed every minute.
        ("requests_seconds", "1s:1h,1m:1d", 1, 60, 0.05),
        // Metrics with points every minute, flushed every ten minutes.
        ("requests_minutes", "1m:7d,1h:90d", 60, 600, 0.12),
    ];
    for (keyspace, retentions, step, flush, allowed) in cases {
        let requests = requests_per_point(server, keyspace, retentions, step, flush);
        println!("{retentions}, flushed every {flush} s: {requests:.4} requests a point");
        assert!(requests <= allowed, "{retentions}, flushed every {flush} s: {requests}");
    }
}

fn requests_per_point(
    server: &server::Server,
    keyspace: &str,
    retentions: &str,
    step: i64,
    flush: i64,
) -> f64 {
    const FLUSHES: i64 = 12;
    server.drop_keyspaces(keyspace).unwrap();
    let mut setup = plumbago_tests::daemon::Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "8").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.request_timeout", "60s").set("spool.linger", "100ms");
    setup.schemas(&format!("[all]\npattern = .*\nretentions = {retentions}\n"));
    let ended = setup.run(&["syncdb"]);
    assert!(ended.status.success(), "{}", ended.output);
    let start = hour(0);
    // The daemon flushes only on request.
    let daemon = setup.set("engine.flush_interval", "1d").clock(start).start();
    let names = names(200);
    created(&daemon, &names, start - step);
    let requests = |daemon: &Daemon| daemon.counters().sum("plumbago_cassandra_write_requests_total");
    let (before, mut points) = (requests(&daemon), 0);
    for number in 0..FLUSHES {
        let from = start + number * flush;
        daemon.set_clock(from + flush);
        let times = (from..from + flush).step_by(step as usize);
        let batch: Vec<Point> =
            times.flat_map(|time| names.iter().map(move |name| Point::new(name, time, 1.0))).collect();
        points += batch.len();
        feed(&daemon, &lines(&batch), batch.len());
        // A flush must not come between the points of a batch.
        daemon.applied_at(0);
        daemon.flush();
        drained(&daemon);
    }
    let requests = requests(&daemon) - before;
    daemon.stop_well();
    server.clean_up(keyspace).unwrap();
    requests as f64 / points as f64
}
