//! Aggregation rules compared with a real carbon-aggregator: the same points must give the same values. Also
//! measures the processor time that they need.

use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use plumbago_tests::capture::own_address;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::{Point, lines};
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{amount, heading, show, took};
use super::{at_least, columns, figure};
use crate::aggregation::{METHODS, carbon_aggregator, stored};
use crate::senders::{SECONDS, connect, now};

const RULES: usize = 50;
/// Counts all points.
const TOTAL: &str = "all.total";
/// The points span this many seconds, which is less than the time for which intervals are kept.
const SECONDS_OF_POINTS: i64 = 100;

/// Rules of all methods, each of which takes every point: half of them compute a metric for each data centre,
/// half for each host.
fn rules() -> String {
    let mut text = format!("{TOTAL} (10) = count <dc>.*.*.value\n");
    for n in 1..RULES {
        let method = METHODS[n / 2 % METHODS.len()];
        let (output, input) = match n % 2 {
            0 => ("<dc>.whole", "<dc>.*.*.value"),
            _ => ("<dc>.by.<host>", "<dc>.<host>.<<rest>>"),
        };
        let _ = writeln!(text, "{output}.{method}{n} (10) = {method} {input}");
    }
    text
}

/// Points of a thousand names, out of order within the time range.
fn points(count: usize, times: Range<i64>) -> Vec<Point> {
    let mut random = StdRng::seed_from_u64(14);
    let point = |n: usize| {
        let value = match random.random_range(0..3) {
            0 => f64::from(random.random_range(-50..50_i32)),
            1 => random.random_range(-1.0..1.0),
            _ => random.random_range(-1e9..1e9),
        };
        let name = format!("dc{}.host{}.m{}.value", n % 5, n / 5 % 20, n / 100 % 10);
        Point::new(name, random.random_range(times.clone()), value)
    };
    (0..count).map(point).collect()
}

/// Waits until the counting rule has counted all points. Polls rarely, because each request costs processor time.
fn wait_total(daemon: &Daemon, count: usize, begin: i64) {
    wait_until("every point to be counted", || {
        thread::sleep(Duration::from_millis(300));
        let series = daemon.render(TOTAL, begin - 2 * SECONDS_OF_POINTS, begin, now());
        let counted: f64 = series.first().map_or(0.0, |series| series.known().values().sum());
        counted == count as f64
    });
}

#[test]
#[ignore = "a figure"]
fn fifty_rules_beside_carbon_aggregator() {
    let count = amount("AGGREGATED", 100_000);
    let (mut theirs, mut ours) = (Setup::new(), Setup::new());
    let rules = rules();
    let plain = theirs.schemas(SECONDS).start();
    let address = own_address();
    let settings = "MAX_AGGREGATION_INTERVALS=60\nMAX_QUEUE_SIZE=999999\nFORWARD_ALL = False\n";
    let pickles = plain.address("pickle tcp");
    let Some(mut carbon) = carbon_aggregator(&theirs, address, pickles, settings, (&rules, "")) else {
        return;
    };
    let mut to_carbon = connect(address, &mut carbon);
    let file = ours.file("aggregation-rules.conf", &rules);
    ours.set("aggregation.rules", file.to_str().unwrap()).set("aggregation.max_intervals", "60");
    ours.set("aggregation.max_values", &(count * RULES).max(1_000_000).to_string());
    let daemon = ours.set("aggregation.forward_all", "false").schemas(SECONDS).start();

    let begin = now();
    let text = lines(&points(count, begin - SECONDS_OF_POINTS..begin));
    let carbons = took(carbon.id(), || {
        to_carbon.write_all(text.as_bytes()).unwrap();
        wait_total(&plain, count, begin);
    });
    let daemons = took(daemon.id(), || {
        daemon.sender().try_bytes(text.as_bytes()).unwrap();
        wait_total(&daemon, count, begin);
    });
    let mut seen = (0, 0);
    wait_until("both to have the same values", || {
        let all = |daemon| stored(daemon, begin - 2 * SECONDS_OF_POINTS, begin);
        let (theirs, ours) = (all(&plain), all(&daemon));
        seen = (theirs.len(), theirs.values().map(|values| values.len()).sum::<usize>());
        theirs == ours
    });
    heading(&format!("{count} points, {RULES} rules; an interval is computed every 10 s"));
    show("carbon-aggregator", count, &carbons);
    show("the daemon, which also stores the results", count, &daemons);
    columns();
    let measured = format!("{} values of {} metrics are equal", seen.1, seen.0);
    figure("final values", "those of carbon-aggregator", &measured, true);
    at_least("points a CPU second, to carbon-aggregator's", 20.0, carbons.cpu / daemons.cpu);
    daemon.stop_well();
    plain.stop_well();
}
