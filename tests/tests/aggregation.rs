//! `[aggregation]`: the final values are those of a real carbon-aggregator, and no interval is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write;
use std::net::SocketAddr;

use plumbago_tests::capture::own_address;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::{Point, lines};
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::senders::{SECONDS, connect, now, python_carbon};

pub(crate) const METHODS: [&str; 12] =
    ["sum", "avg", "min", "max", "p50", "p75", "p80", "p90", "p95", "p99", "p999", "count"];

/// Starts carbon-aggregator with these rules. It sends its results to `destination` as pickles.
pub(crate) fn carbon_aggregator(
    setup: &Setup,
    address: SocketAddr,
    destination: SocketAddr,
    settings: &str,
    (rules, rewrites): (&str, &str),
) -> Option<plumbago_tests::child::Guarded> {
    let directory = setup.path().join("aggregator");
    std::fs::create_dir_all(directory.join("conf")).unwrap();
    std::fs::write(directory.join("conf/aggregation-rules.conf"), rules).unwrap();
    std::fs::write(directory.join("conf/rewrite-rules.conf"), rewrites).unwrap();
    let section = format!(
        "[aggregator]\nUSER =\nLINE_RECEIVER_INTERFACE = {}\nLINE_RECEIVER_PORT = {}\nPICKLE_RECEIVER_PORT = 0\n\
         DESTINATIONS = {destination}:a\nDESTINATION_PROTOCOL = pickle\nREPLICATION_FACTOR = 1\n\
         CARBON_METRIC_INTERVAL = 0\n{settings}",
        address.ip(),
        address.port(),
    );
    python_carbon(&directory, "carbon-aggregator", &section)
}

/// All points of a daemon between two times, by name.
pub(crate) fn stored(daemon: &Daemon, from: i64, until: i64) -> BTreeMap<String, BTreeMap<i64, u64>> {
    let names = daemon.names();
    let series = names.iter().map(|name| {
        let series = daemon.render(name, from, until, now());
        let known = series.first().map(|series| series.known()).unwrap_or_default();
        (name.clone(), known.into_iter().map(|(time, value)| (time, value.to_bits())).collect())
    });
    series.collect()
}

fn ledger(daemon: &Daemon) -> Value {
    serde_json::from_str(&http::get(daemon.admin(), "/admin/ledger").body).unwrap()
}

fn number(ledger: &Value, field: &str) -> u64 {
    ledger[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {ledger}"))
}

/// A field of the object `aggregation` in the ledger.
pub(crate) fn line(daemon: &Daemon, field: &str) -> u64 {
    number(&ledger(daemon)["aggregation"], field)
}

fn assert_balanced(daemon: &Daemon) -> Value {
    let ledger = ledger(daemon);
    let sum = |fields: &[&str]| fields.iter().map(|field| number(&ledger, field)).sum::<u64>();
    let came = sum(&["received", "derived", "recovered"]);
    assert_eq!(came, sum(&["stored", "held", "replaced", "rejected", "consumed"]), "{ledger}");
    ledger
}

/// Rules of all methods, with fields, with several rules for one output, and with outputs that are inputs.
fn rules_of_all_kinds() -> String {
    let mut text = String::from("# all kinds\n");
    for (n, method) in METHODS.iter().enumerate() {
        let frequency = 1 + n % 3;
        let _ = writeln!(text, "<seed>.all.{method} ({frequency}) = {method} <seed>.*.*.value");
        let _ = writeln!(text, "<seed>.by.<host>.{method} (2) = {method} <seed>.<host>.<<rest>>");
    }
    text.push_str("<seed>.twice (1) = sum <seed>.web*.a.value\n<seed>.twice (3) = count <seed>.*.a.value\n");
    text.push_str("<seed>.by.web1.sum (2) = sum <seed>.web1.(a|b).value\n");
    text.push_str("<seed>.db0.c.value (1) = max <seed>.db0.c.value\n");
    text.push_str("late.total (1) = count <seed>.*.*.value\n");
    text
}

/// Points from a seed: out of order, several with the same name and second, and values of every size.
fn points_of(seed: u64, count: usize, times: std::ops::Range<i64>) -> Vec<Point> {
    let mut random = StdRng::seed_from_u64(seed);
    let hosts = ["web1", "web22", "db0"];
    let leaves = ["a", "b", "c"];
    let mut point = || {
        let (host, leaf) = (hosts[random.random_range(0..3)], leaves[random.random_range(0..3)]);
        let value = match random.random_range(0..4) {
            0 => f64::from(random.random_range(-50..50_i32)),
            1 => random.random_range(-1.0..1.0),
            2 => random.random_range(-1e9..1e9),
            _ => f64::from(random.random_range(0..4_u32)) / 10.0,
        };
        Point::new(format!("s{seed}.{host}.{leaf}.value"), random.random_range(times.clone()), value)
    };
    (0..count).map(|_| point()).collect()
}

#[test]
fn final_values_are_those_of_carbon_aggregator() {
    let (mut theirs, mut ours) = (Setup::new(), Setup::new());
    let rules = rules_of_all_kinds();
    let rewrites = "[pre]\n^raw\\. =\n[post]\n^s(\\d+)\\.xx\\. = seed\\1.\n";
    let plain = theirs.schemas(SECONDS).start();
    let address = own_address();
    let settings = "MAX_AGGREGATION_INTERVALS=60\nMAX_QUEUE_SIZE=99999\n";
    let pickles = plain.address("pickle tcp");
    let Some(mut carbon) = carbon_aggregator(&theirs, address, pickles, settings, (&rules, rewrites)) else {
        return;
    };
    let mut to_carbon = connect(address, &mut carbon);

    let file = ours.file("aggregation-rules.conf", &rules);
    let rewrite_file = ours.file("rewrite-rules.conf", rewrites);
    ours.set("aggregation.rules", file.to_str().unwrap()).set("aggregation.max_intervals", "60");
    ours.set("ingest.rewrite_rules", rewrite_file.to_str().unwrap());
    let daemon = ours.schemas(SECONDS).start();
    let mut to_us = daemon.sender();

    let begin = now();
    let (first, last) = (begin - 1000, begin + 60);
    let mut sent = 0;
    for round in 0..4_u64 {
        let mut points = Vec::new();
        for seed in 1..=20 {
            let seed_of_round = seed * 1000 + round;
            // Points for intervals that are still kept, so that later rounds correct them. The first round also has
            // points that are too old.
            let mut of_seed = points_of(seed_of_round, 60, begin - 20..begin);
            if round == 0 {
                of_seed.extend(points_of(seed_of_round + 500, 20, begin - 900..begin - 890));
            }
            for point in &mut of_seed {
                let (_, rest) = point.name.split_once('.').unwrap();
                point.name = format!("raw.s{seed}.{rest}");
            }
            points.extend(of_seed);
        }
        sent += points.len();
        let text = lines(&points);
        to_carbon.write_all(text.as_bytes()).unwrap();
        to_us.try_bytes(text.as_bytes()).unwrap();
        for daemon in [&plain, &daemon] {
            wait_until("every value to be counted", || {
                let series = daemon.render("late.total", first, last, now());
                let counted: f64 = series.first().map_or(0.0, |series| series.known().values().sum());
                counted == sent as f64
            });
        }
    }
    let mut seen = (BTreeMap::new(), BTreeMap::new());
    wait_until("both to have the same values", || {
        seen = (stored(&plain, first, last), stored(&daemon, first, last));
        seen.0 == seen.1
    });
    let values: usize = seen.0.values().map(BTreeMap::len).sum();
    println!("{} metrics, {values} values are equal", seen.0.len());
    let methods: BTreeSet<&str> = seen.0.keys().filter_map(|name| name.rsplit('.').next()).collect();
    assert!(METHODS.iter().all(|method| methods.contains(method)), "{methods:?}");
    assert_balanced(&daemon);
    daemon.stop_well();
    plain.stop_well();
}

/// A daemon with these rules, whose clock stands still.
fn with_rules(setup: &mut Setup, rules: &str, clock: i64) -> std::path::PathBuf {
    let file = setup.file("aggregation-rules.conf", rules);
    setup.set("aggregation.rules", file.to_str().unwrap()).schemas(SECONDS).clock(clock);
    file
}

fn wait_fed(daemon: &Daemon, fed: u64) {
    wait_until(&format!("{fed} values to be taken"), || line(daemon, "fed") == fed);
}

/// Waits until a series has the values `wanted`, and returns its values.
fn wait_values(daemon: &Daemon, name: &str, wanted: &[(i64, f64)], clock: i64) {
    let wanted: BTreeMap<i64, f64> = wanted.iter().copied().collect();
    let mut seen = BTreeMap::new();
    wait_until(&format!("the values of {name}"), || {
        let series = daemon.render(name, clock - 1000, clock + 100, clock + 100);
        seen = series.first().map(|series| series.known()).unwrap_or_default();
        seen == wanted
    });
}

const CLOCK: i64 = 1_700_000_000;

#[test]
fn a_kill_in_the_middle_of_an_interval_loses_nothing() {
    let mut setup = Setup::new();
    with_rules(&mut setup, "<x>.sum (10) = sum <x>.*\n<x>.p50 (10) = p50 <x>.*\n", CLOCK);
    setup.set("aggregation.forward_all", "false");
    let send = |daemon: &Daemon, points: &[(&str, i64, f64)]| {
        let points: Vec<Point> =
            points.iter().map(|(name, at, value)| Point::new(*name, *at, *value)).collect();
        daemon.sender().send(&points);
    };
    let daemon = setup.start();
    send(&daemon, &[("a.1", CLOCK, 1.0), ("a.2", CLOCK + 3, 2.0), ("b.1", CLOCK - 10, 5.0)]);
    wait_fed(&daemon, 6);
    daemon.kill();

    let daemon = setup.start();
    assert_eq!(line(&daemon, "recovered"), 6);
    send(&daemon, &[("a.1", CLOCK + 9, 4.0)]);
    wait_fed(&daemon, 2);
    daemon.set_clock(CLOCK + 20);
    wait_values(&daemon, "a.sum", &[(CLOCK, 7.0)], CLOCK);
    wait_values(&daemon, "a.p50", &[(CLOCK, 2.0)], CLOCK);
    wait_values(&daemon, "b.sum", &[(CLOCK - 10, 5.0)], CLOCK);
    daemon.kill();

    // After a kill, an interval that was already computed can still be corrected, and it is closed when it is
    // due.
    setup.clock(CLOCK + 30);
    let daemon = setup.start();
    send(&daemon, &[("a.1", CLOCK + 1, 8.0)]);
    wait_fed(&daemon, 2);
    daemon.set_clock(CLOCK + 60);
    wait_values(&daemon, "a.sum", &[(CLOCK, 15.0)], CLOCK);
    wait_values(&daemon, "a.p50", &[(CLOCK, 3.0)], CLOCK);
    daemon.set_clock(CLOCK + 200);
    wait_until("all intervals to be closed", || {
        daemon.counters().sum("plumbago_aggregation_open_intervals") == 0
    });
    daemon.kill();

    setup.clock(CLOCK + 200);
    let daemon = setup.start();
    assert_eq!(line(&daemon, "recovered"), 0);
    wait_values(&daemon, "a.sum", &[(CLOCK, 15.0)], CLOCK);
    daemon.stop_well();
}
