//! The points of the comparison.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::queries;

/// `hours` has at most one point an hour, `fine` one every second. Both have a single stage, so that no point is
/// lost. `staged`, `summed` and `averaged` have two stages. Queries of `staged` cover only times that the first stage
/// holds; queries of `summed` and `averaged` cover only times that no other stage than the second holds.
pub(super) const SCHEMAS: &str = "[fine]\npattern = ^fine\nretentions = 1s:30y\n\
    [hours]\npattern = ^hours\nretentions = 1h:30y\n\
    [recent]\npattern = ^recent\nretentions = 1m:30d\n\
    [staged]\npattern = ^staged\nretentions = 1m:7d,1h:90d\n\
    [summed]\npattern = ^summed\nretentions = 1s:1d,1m:90d\n\
    [averaged]\npattern = ^averaged\nretentions = 1s:1d,1m:90d\n\
    [all]\npattern = .*\nretentions = 1s:30y\n";

pub(super) const AGGREGATION: &str = "[summed]\npattern = ^summed\nxFilesFactor = 0\naggregationMethod = sum\n\
    [all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = average\n";

/// 2023-10-28 22:00 UTC: three hours later summer time ends in Rome.
pub(super) const FINE_START: i64 = 1_698_530_400;
/// Length of the time range of `fine`, in seconds.
pub(super) const FINE_LENGTH: i64 = 5 * 3600;
/// 2023-08-01 UTC. In the following months summer time ends and begins, and a year ends.
pub(super) const HOURS_START: i64 = 1_690_848_000;
/// Length of the time range of `hours`, in seconds.
pub(super) const HOURS_LENGTH: i64 = 270 * 86_400;

/// For each metric, the smallest distance between two times, and the number of points of each series.
const METRICS: [(&str, i64, usize); 6] = [
    ("fine", 1, 110),
    ("hours", 3600, 100),
    ("recent", 60, 60),
    ("staged", 60, 60),
    ("summed", 1, 90),
    ("averaged", 1, 900),
];

/// The metrics whose queries read a coarse stage.
pub(super) const COARSE: [&str; 2] = ["summed", "averaged"];

/// The tags of the series of each metric.
pub(super) const SERIES: [&[(&str, &str)]; 8] = [
    &[("host", "a"), ("dc", "x")],
    &[("host", "b"), ("dc", "x")],
    &[("host", "c"), ("dc", "y")],
    &[("host", "a"), ("dc", "y"), ("odd", "v 1")],
    &[("host", "d")],
    &[("dc", "z"), ("odd", "ü;~")],
    &[("host", "a.b"), ("odd", "regex")],
    &[("host", "B")],
];

/// The first time and the length of a metric's time range, in seconds.
pub(super) fn span(metric: &str, now: i64) -> (i64, i64) {
    match metric {
        "fine" => (FINE_START, FINE_LENGTH),
        "hours" => (HOURS_START, HOURS_LENGTH),
        // Two days ago is beyond the first stage.
        "summed" | "averaged" => ((now - 3 * 86_400) / 3600 * 3600, 6 * 3600),
        _ => ((now - 5 * 3600) / 60 * 60, 4 * 3600),
    }
}

/// The time at which all points of [`COARSE`] have arrived.
pub(super) fn oldest_end(now: i64) -> i64 {
    let (start, length) = span("summed", now);
    start + length
}

/// Bodies for `/api/v1/datapoints`.
pub(super) fn bodies(now: i64) -> Vec<Value> {
    let mut random = SmallRng::seed_from_u64(15);
    METRICS.iter().map(|(metric, step, count)| body(&mut random, metric, *step, *count, now)).collect()
}

fn body(random: &mut SmallRng, metric: &str, step: i64, count: usize, now: i64) -> Value {
    let (start, length) = span(metric, now);
    let series = SERIES.iter().enumerate().map(|(number, tags)| {
        // One series is very sparse.
        let count = if number == 4 { 3 } else { count };
        let mut times: Vec<i64> =
            (0..count).map(|_| start + random.random_range(0..length / step) * step).collect();
        times.sort_unstable();
        times.dedup();
        let is_whole = number % 2 == 0;
        let points: Vec<Value> =
            times.iter().map(|time| json!([time * 1000, value(random, is_whole)])).collect();
        let tags: serde_json::Map<String, Value> =
            tags.iter().map(|(tag, value)| ((*tag).to_owned(), json!(value))).collect();
        json!({"name": metric, "tags": tags, "datapoints": points})
    });
    series.collect()
}

fn value(random: &mut SmallRng, is_whole: bool) -> Value {
    if is_whole {
        json!(random.random_range(-60..60_i64))
    } else {
        json!(f64::from(random.random_range(-6000..6000_i32)) / 100.0 + 0.001)
    }
}

/// For each metric whose points are all in one stage, a query for all of them and their number.
pub(super) fn counts(bodies: &[Value], now: i64) -> Vec<(Value, u64)> {
    let counted = METRICS.iter().zip(bodies).filter(|((metric, ..), _)| !COARSE.contains(metric));
    let count = |((metric, ..), body): (&(&str, i64, usize), &Value)| {
        let (start, length) = span(metric, now);
        let points =
            body.as_array().unwrap().iter().map(|one| one["datapoints"].as_array().unwrap().len() as u64);
        (queries::within(metric, start * 1000, (start + length) * 1000), points.sum())
    };
    counted.map(count).collect()
}
