//! Queries of one series and of a hundred.

use std::time::Duration;

use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

use super::super::amount;
use super::client::{Repeat, time};
use super::row::{Row, heading};
use super::{MINUTES, QUERY, count_and_sum, kairosdb_on, node, now, object, process_of, same_results, send};
use super::{setup_of, wait_idle};

const SERIES: usize = 100;
const POINTS: i64 = 600;
const METRIC: &str = "load";
/// Our queries must be faster than KairosDB's by at least this factor.
const RATIO: f64 = 20.0;

/// A query: its description, the number of its results, and the target in milliseconds.
struct Asked {
    what: &'static str,
    results: usize,
    target: Option<f64>,
    metric: Value,
}

fn asked() -> [Asked; 3] {
    let by_hour = |name: &str| json!([{"name": name, "sampling": {"value": 1, "unit": "hours"}}]);
    [
        Asked {
            what: "one series of 600 points",
            results: 1,
            target: Some(1.0),
            metric: json!({"name": METRIC, "tags": {"host": ["h007"]}}),
        },
        Asked {
            what: "100 × 600 points summed by the hour",
            results: 1,
            target: Some(5.0),
            metric: json!({"name": METRIC, "aggregators": by_hour("sum")}),
        },
        Asked {
            what: "100 × 600 points, mean by the hour of each series",
            results: SERIES,
            target: None,
            metric: json!({"name": METRIC, "aggregators": by_hour("avg"),
                "group_by": [{"name": "tag", "tags": ["host"]}]}),
        },
    ]
}

#[test]
#[ignore = "a figure"]
fn queries_of_one_series_and_of_a_hundred() {
    let Some(node) = node() else { return };
    let Some(real) = kairosdb_on(&node, "reads") else { return };
    let setup = setup_of(MINUTES);
    let daemon = setup.start();
    // All of the range is in the past, so that nothing changes during the test.
    let until = now() / 3600 * 3600;
    let from = until - 60 * POINTS;
    let body = |series: usize| {
        let value = |at: i64| (at * 7 + series as i64 * 13) % 1000;
        let points = (0..POINTS).map(|at| (from + 60 * at, value(at) as f64 + 0.25));
        format!("[{}]", object(METRIC, &format!(r#""host":"h{series:03}","dc":"dc{}""#, series % 4), points))
    };
    send(&[daemon.api(), real.http()], (0..SERIES).map(body));
    let total = SERIES as u64 * POINTS as u64;
    daemon.ledger_at(total);
    daemon.flush();
    for address in [daemon.api(), real.http()] {
        wait_until("all points to be read", || count_and_sum(address, METRIC, (from, until)).0 == total);
    }
    wait_idle(&[real.id(), process_of(&node)]);
    let repeat = Repeat { count: amount("KAIROSDB_REQUESTS", 200), limit: Duration::from_secs(120) };
    heading("Queries over REST, median of requests on one connection; no answer is kept (no cache_time)");
    for Asked { what, results, target, metric } in asked() {
        let query =
            json!({"start_absolute": from * 1000, "end_absolute": until * 1000 - 1, "metrics": [metric]});
        let found = same_results(real.http(), daemon.api(), QUERY, &query);
        assert_eq!(found.len(), results, "{query}");
        assert!(found.iter().all(|(_, points)| points.len() >= 10), "{query}");
        let ours = time(daemon.api(), QUERY, &query, repeat);
        let theirs = time(real.http(), QUERY, &query, repeat);
        let aim = target.map_or(String::new(), |most| format!("below {most} ms, and {RATIO} × faster"));
        let row = Row::of(what, &aim, "ms", ours.p50, theirs.p50);
        match target {
            Some(most) => row.met(ours.p50 < most && theirs.p50 >= RATIO * ours.p50).print(),
            None => row.print(),
        }
        let worst = format!("{what}: p99 of {} and {} requests", ours.requests, theirs.requests);
        Row::of(&worst, "", "ms", ours.p99, theirs.p99).print();
    }
    daemon.stop_well();
}
