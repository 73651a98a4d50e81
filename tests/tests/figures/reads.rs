//! Measures reads of a daemon on the embedded store, and of graphite-web on whisper files of the same points.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::oracle::{Kept, Oracle};
use plumbago_tests::send::{Point, lines};

use super::median_and_worst;

const METRICS: usize = 1000;
/// Number of minutes in a day.
const SLOTS: usize = 1440;
const START: i64 = 1_699_920_000;
const NOW: i64 = START + 86_400;
const ROUNDS: usize = 5;

/// Typical queries of dashboards.
const TARGETS: &[(&str, &str)] = &[
    ("one metric", "load.host007.m3"),
    ("1,000 metrics", "load.*.*"),
    ("sumSeries of 1,000", "sumSeries(load.*.*)"),
    ("groupByNode of 1,000 by host", "groupByNode(load.*.*,1,'sum')"),
    ("movingAverage of 1,000", "movingAverage(load.*.*,10)"),
    ("the highest 5 of 1,000", "highestAverage(load.*.*,5)"),
];

fn name(n: usize) -> String {
    format!("load.host{:03}.m{}", n / 10, n % 10)
}

/// Integers, counters and measured values in turn.
fn value(n: usize, slot: usize) -> f64 {
    match n % 3 {
        0 => ((n * 7 + slot) % 100) as f64,
        1 => (slot * (n + 1)) as f64,
        _ => (slot as f64 / 60.0 + n as f64).sin() * 100.0,
    }
}

#[test]
#[ignore = "a figure"]
fn reads_beside_graphite_web() {
    let Some(mut oracle) = Oracle::start() else { return };
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1m:2d\n").clock(NOW);
    let daemon = setup.start();
    fill(&daemon, &mut oracle);
    println!("\n{:<32} {:>14} {:>14} {:>8}", "24 h as JSON, median", "Plumbago ms", "graphite-web", "ratio");
    for (what, target) in TARGETS {
        let (from, until) = (&START.to_string(), &NOW.to_string());
        let query = [("target", *target), ("from", from), ("until", until), ("now", until)];
        let path = http::url("/render", &[&query[..], &[("format", "json"), ("noCache", "1")]].concat());
        let answer = daemon.get(&path);
        assert!(answer.status == 200 && answer.body.len() > 1000, "{path}: {answer:?}");
        let ours = median(|| seconds_of(daemon.api(), &path));
        let theirs = median(|| {
            let answer = oracle.get(NOW, &path);
            assert!(answer.status == 200 && answer.body.len() > 1000, "{path}: {answer:?}");
            answer.seconds
        });
        println!("{what:<32} {:>14.2} {:>14.1} {:>8.0}", ours * 1e3, theirs * 1e3, theirs / ours);
    }
    daemon.stop_well();
}

fn fill(daemon: &Daemon, oracle: &mut Oracle) {
    let kept = |n| Kept {
        name: name(n),
        stages: vec![(60, 2 * SLOTS as i64)],
        factor: 0.5,
        method: "average".to_owned(),
    };
    oracle.create(&(0..METRICS).map(kept).collect::<Vec<_>>());
    let mut sender = daemon.sender();
    for n in 0..METRICS {
        let values: Vec<f64> = (0..SLOTS).map(|slot| value(n, slot)).collect();
        oracle.fill(NOW, &name(n), (START, 60), &values);
        let point = |slot: usize| Point::new(name(n), START + 60 * slot as i64, values[slot]);
        sender.try_bytes(lines(&(0..SLOTS).map(point).collect::<Vec<_>>()).as_bytes()).unwrap();
    }
    daemon.ledger_at((METRICS * SLOTS) as u64);
    daemon.wait_names(METRICS);
    daemon.flush();
}

/// Seconds until the last byte of an answer. The bytes are discarded, because parsing them is not part of the
/// daemon's work.
pub(super) fn seconds_of(address: SocketAddr, path: &str) -> f64 {
    let begun = Instant::now();
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut buffer = vec![0; 1 << 20];
    while connection.read(&mut buffer).unwrap() > 0 {}
    begun.elapsed().as_secs_f64()
}

/// The median of some rounds. One more round before them is for warming up.
fn median(mut once: impl FnMut() -> f64) -> f64 {
    once();
    median_and_worst(&mut (0..ROUNDS).map(|_| once()).collect::<Vec<_>>()).0
}
