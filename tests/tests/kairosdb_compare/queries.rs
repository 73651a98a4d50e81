//! Generated queries.

use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use serde_json::{Value, json};

use super::points;

/// A query, and the properties that the comparison needs.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) body: Value,
    /// Whether its times depend on the clock.
    pub(super) is_relative: bool,
    /// Whether an aggregator needs coarser comparison: `least_squares` loses digits of large times.
    pub(super) is_fitted: bool,
    /// Whether the points are in descending order and an aggregator works on ranges.
    pub(super) has_descending_ranges: bool,
    /// Whether the query reads a coarse stage, which only one of the daemons has.
    pub(super) is_coarse: bool,
}

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Rome",
    "Europe/Rome",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "+02:00",
];

const FOLDS: [&str; 10] =
    ["sum", "min", "max", "avg", "dev", "count", "first", "last", "percentile", "least_squares"];

/// All points of a metric.
pub(super) fn plain(metric: &str) -> Value {
    within(metric, 1_698_537_000_000, 1_698_538_000_000)
}

/// The points of a metric between two times in milliseconds.
pub(super) fn within(metric: &str, start: i64, end: i64) -> Value {
    json!({"start_absolute": start, "end_absolute": end, "metrics": [{"name": metric}]})
}

fn pick<'a, T>(random: &mut SmallRng, from: &'a [T]) -> &'a T {
    &from[random.random_range(0..from.len())]
}

fn chance(random: &mut impl Rng, percent: u32) -> bool {
    random.random_range(0..100) < percent
}

/// One query.
pub(super) fn query(random: &mut SmallRng, now: i64) -> Query {
    const METRICS: [&str; 10] =
        ["fine", "fine", "fine", "hours", "hours", "hours", "recent", "staged", "summed", "averaged"];
    let metric = *pick(random, &METRICS);
    if points::COARSE.contains(&metric) {
        return coarse(random, metric, now);
    }
    let is_relative = metric == "recent";
    let mut body = if is_relative { relative(random) } else { absolute(random, metric, now) };
    if chance(random, 60) {
        body["time_zone"] = json!(pick(random, &ZONES));
    }
    let descending = chance(random, 12);
    let mut one = json!({"name": metric});
    let aggregators = aggregators(random, metric, descending, is_relative);
    let named = |name: &str| aggregators.iter().any(|aggregator| aggregator["name"] == name);
    let is_fitted = named("least_squares");
    let has_ranges = FOLDS.iter().any(|fold| named(fold)) || named("gaps");
    if !aggregators.is_empty() {
        one["aggregators"] = json!(aggregators);
    }
    select(random, &mut one);
    if chance(random, 40) {
        one["group_by"] = json!(groups(random));
    }
    if chance(random, 20) {
        one["limit"] = json!(*pick(random, &[1, 2, 5, 30, 100, 1000]));
    }
    if descending {
        one["order"] = json!(*pick(random, &["desc", "DESC"]));
    } else if chance(random, 10) {
        one["order"] = json!("asc");
    }
    if chance(random, 5) {
        // An alias has no effect.
        one["alias"] = json!("another name");
    }
    let mut metrics = vec![one];
    if chance(random, 5) {
        metrics.push(json!({"name": metric, "tags": {"host": "none"}}));
    }
    if chance(random, 5) {
        // The same metric once more, with another selection and grouping.
        let mut second = json!({"name": metric});
        select(random, &mut second);
        if chance(random, 50) {
            second["group_by"] = json!(groups(random));
        }
        metrics.insert(0, second);
    }
    body["metrics"] = json!(metrics);
    let has_descending_ranges = descending && has_ranges;
    Query { body, is_relative, is_fitted, has_descending_ranges, is_coarse: false }
}

fn absolute(random: &mut SmallRng, metric: &str, now: i64) -> Value {
    let (start, length) = points::span(metric, now);
    let (start, length) = (start * 1000, length * 1000);
    let ms = if chance(random, 50) { 0 } else { random.random_range(0..1000) };
    let from = start + random.random_range(-length / 10..length) / 1000 * 1000 + ms;
    let until = (from + random.random_range(0..length)) / 1000 * 1000 + ms;
    let number =
        |random: &mut SmallRng, ms: i64| if chance(random, 5) { json!(ms.to_string()) } else { json!(ms) };
    let mut body = json!({"start_absolute": number(random, from)});
    // The range of `fine` from its start until now has too many seconds.
    if metric == "fine" || chance(random, 90) {
        body["end_absolute"] = number(random, until);
    }
    body
}

fn relative(random: &mut SmallRng) -> Value {
    let (hours, end) = (random.random_range(1..7), random.random_range(0..2));
    let unit = *pick(random, &["hours", "HOURS"]);
    let mut body = json!({"start_relative": {"value": hours + end, "unit": unit}});
    if end > 0 {
        body["end_relative"] = json!({"value": (end * 30).to_string(), "unit": "minutes"});
    }
    body
}

/// Chooses which series are read, and whether the answer has their tags.
fn select(random: &mut SmallRng, metric: &mut Value) {
    let tags = match random.random_range(0..12) {
        0 => json!({"host": "a"}),
        1 => json!({"host": ["a", "c", "B"]}),
        2 => json!({"dc": ["x", "y"], "host": "a"}),
        3 => json!({"odd": "ü;~"}),
        4 => json!({"host": "regex:[ab]"}),
        5 => json!({"host": ["regex:a.*", "c"], "dc": "regex:(x|y)"}),
        6 => json!({"host": "a.b"}),
        7 => json!({"host": "none"}),
        _ => return,
    };
    metric["tags"] = tags;
    if chance(random, 15) {
        metric["exclude_tags"] = json!(true);
    }
}

/// The query for KairosDB with H2, in which regular expressions are replaced by the values that they match. With H2,
/// KairosDB ignores regular expressions; with Cassandra it does not.
pub(super) fn without_regexes(query: &str) -> String {
    let matches = [
        ("\"regex:[ab]\"", "[\"a\",\"b\"]"),
        ("\"regex:a.*\"", "\"a\",\"a.b\""),
        ("\"regex:(x|y)\"", "[\"x\",\"y\"]"),
    ];
    matches.iter().fold(query.to_owned(), |query, (regex, values)| query.replace(regex, values))
}

fn groups(random: &mut SmallRng) -> Vec<Value> {
    let count = if chance(random, 25) { 2 } else { 1 };
    (0..count).map(|_| group(random)).collect()
}

fn group(random: &mut SmallRng) -> Value {
    match random.random_range(0..6) {
        0 | 1 => {
            json!({"name": "tag", "tags": pick(random, &[vec!["host"], vec!["dc"], vec!["dc", "host"], vec!["odd", "none"]])})
        }
        2 => {
            let size = json!({"value": random.random_range(1..4), "unit": pick(random, &["seconds", "minutes", "hours", "days", "weeks", "months", "years"])});
            json!({"name": "time", "range_size": size, "group_count": random.random_range(1..9)})
        }
        3 => json!({"name": "value", "range_size": random.random_range(1..60)}),
        _ => {
            json!({"name": "bin", "bins": pick(random, &[vec![0.0], vec![-20.0, 0.0, 20.5], vec![10.0, -10.0, 30.0]])})
        }
    }
}

fn aggregators(random: &mut SmallRng, metric: &str, descending: bool, aligned: bool) -> Vec<Value> {
    let count = *pick(random, &[0, 1, 1, 1, 1, 2, 2, 3]);
    let mut all: Vec<Value> = Vec::new();
    for at in 0..count {
        // Most descending queries have no ranges, because ranges of descending queries differ on purpose.
        let by_ranges = if descending {
            chance(random, 5)
        } else {
            chance(random, 65) || (at == 0 && chance(random, 50))
        };
        if by_ranges && at + 1 == count && chance(random, 12) {
            all.push(gaps(random, metric, aligned));
            break;
        }
        all.push(if by_ranges { range(random, metric, aligned) } else { single(random) });
    }
    all
}

fn sampling(random: &mut SmallRng, metric: &str) -> Value {
    let units: &[&str] = match metric {
        "fine" => &["milliseconds", "seconds", "seconds", "minutes", "minutes", "hours", "days", "weeks"],
        "hours" => &["minutes", "hours", "hours", "days", "days", "weeks", "months", "years", "DAYS"],
        _ => &["seconds", "minutes", "minutes", "hours", "days"],
    };
    json!({"value": *pick(random, &[1, 1, 2, 3, 5, 7, 10, 24, 45]), "unit": pick(random, units)})
}

/// An aggregator over time ranges. If `aligned`, its result does not depend on the milliseconds of the start.
fn range(random: &mut SmallRng, metric: &str, aligned: bool) -> Value {
    let name = *pick(random, &FOLDS);
    let mut one = json!({"name": name});
    if aligned || chance(random, 95) {
        one["sampling"] = sampling(random, metric);
    }
    if !aligned && chance(random, 50) {
        one["align_sampling"] = json!(chance(random, 40));
    }
    match random.random_range(0..4) {
        0 => one["align_start_time"] = json!(true),
        1 => one["align_end_time"] = json!(true),
        _ => {}
    }
    if chance(random, 4) {
        one["time_zone"] = json!(pick(random, &ZONES));
    }
    match name {
        "percentile" => one["percentile"] = json!(pick(random, &[0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0])),
        "dev" if chance(random, 50) => {
            one["return_type"] = json!(pick(random, &["value", "pos_sd", "neg_sd"]));
            if chance(random, 50) {
                one["dev_count"] = json!(random.random_range(1..4));
            }
        }
        _ => {}
    }
    one
}

/// The aggregator `gaps`, with a limited number of ranges.
fn gaps(random: &mut SmallRng, metric: &str, aligned: bool) -> Value {
    let unit = if metric == "hours" {
        *pick(random, &["hours", "days", "weeks", "months"])
    } else {
        *pick(random, &["minutes", "hours"])
    };
    let mut one = json!({"name": "gaps", "sampling": {"value": random.random_range(1..13), "unit": unit}});
    if !aligned && chance(random, 40) {
        one["align_sampling"] = json!(false);
    }
    one
}

fn single(random: &mut SmallRng) -> Value {
    let unit =
        *pick(random, &["milliseconds", "seconds", "minutes", "hours", "days", "weeks", "months", "years"]);
    match random.random_range(0..11) {
        0 => json!({"name": "rate", "unit": unit}),
        1 => json!({"name": "rate", "sampling": {"value": random.random_range(1..4), "unit": unit}}),
        2 => json!({"name": "sampler", "unit": unit}),
        3 => json!({"name": "diff"}),
        4 => json!({"name": "scale", "factor": pick(random, &[0.5, 2.0, -3.25, 0.0])}),
        5 => json!({"name": "div", "divisor": pick(random, &[0.5, 2.0, -3.0, 7.0])}),
        6 => json!({"name": "sma", "size": random.random_range(1..8)}),
        7 => json!({"name": "trim", "trim": pick(random, &["first", "last", "both", "FIRST"])}),
        8 | 9 => {
            json!({"name": "filter", "filter_op": pick(random, &["lt", "lte", "gt", "gte", "equal", "ne"]), "threshold": pick(random, &[0.0, 1.0, -20.0, 30.001])})
        }
        _ => {
            let thresholds = [
                json!({"value": 10}),
                json!({"value": -10, "boundary": "inferior"}),
                json!({"value": 3, "boundary": "superior"}),
            ];
            let thresholds = &thresholds[..random.random_range(0..4)];
            json!({"name": "score", "thresholds": thresholds, "order": pick(random, &["ascending", "descending"])})
        }
    }
}

/// A query that reads a coarse stage. Sums, means and counts of whole slots are exact.
fn coarse(random: &mut SmallRng, metric: &str, now: i64) -> Query {
    let (start, length) = points::span(metric, now);
    let (value, unit) = *pick(
        random,
        &[
            (1, "minutes"),
            (2, "minutes"),
            (5, "minutes"),
            (30, "minutes"),
            (1, "hours"),
            (2, "hours"),
            (1, "days"),
        ],
    );
    let at = if chance(random, 50) { "align_start_time" } else { "align_end_time" };
    let fold = pick(random, &["sum", "avg", "count"]);
    let mut aggregators = match random.random_range(0..4) {
        0 => vec![json!({"name": "scale", "factor": 2.5})],
        1 => vec![json!({"name": "div", "divisor": -4})],
        _ => Vec::new(),
    };
    aggregators.push(json!({"name": fold, "sampling": {"value": value, "unit": unit}, at: true}));
    if chance(random, 20) {
        aggregators.push(single(random));
    }
    let mut body = within(metric, start * 1000, (start + length) * 1000 - 1);
    body["metrics"][0]["aggregators"] = json!(aggregators);
    select(random, &mut body["metrics"][0]);
    if chance(random, 50) {
        body["metrics"][0]["group_by"] = json!([{"name": "tag", "tags": ["host"]}]);
    }
    if chance(random, 50) {
        body["time_zone"] = json!(pick(random, &ZONES));
    }
    Query { body, is_relative: false, is_fitted: false, has_descending_ranges: false, is_coarse: true }
}

/// A query for tags. With H2, KairosDB ignores its times.
pub(super) fn tags(random: &mut SmallRng) -> Query {
    let metric = *pick(random, &["fine", "hours", "none"]);
    let mut body = json!({"start_absolute": points::HOURS_START * 1000, "end_absolute": (points::FINE_START + points::FINE_LENGTH) * 1000});
    let mut one = json!({"name": metric});
    select(random, &mut one);
    one.as_object_mut().unwrap().remove("exclude_tags");
    body["metrics"] = json!([one]);
    Query { body, is_relative: false, is_fitted: false, has_descending_ranges: false, is_coarse: false }
}

/// Wrong queries, each with whether the text of our answer equals KairosDB's.
pub(super) fn wrong() -> Vec<(String, bool)> {
    let with = |metric: Value| {
        let mut one = json!({"name": "m"});
        metric.as_object().unwrap().iter().for_each(|(key, value)| one[key] = value.clone());
        json!({"start_absolute": 1_698_537_000_000_i64, "end_absolute": 1_698_538_000_000_i64, "metrics": [one]}).to_string()
    };
    let aggregator = |one: Value| with(json!({"aggregators": [one]}));
    let group = |one: Value| with(json!({"group_by": [one]}));
    let timed = |times: Value| {
        let mut body = json!({"metrics": [{"name": "m"}]});
        times.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        body.to_string()
    };
    let second = json!({"value": 1, "unit": "seconds"});
    vec![
        (String::new(), false),
        ("{".to_owned(), false),
        ("null".to_owned(), false),
        ("[]".to_owned(), false),
        ("{}".to_owned(), true),
        (json!({"start_absolute": 1, "metrics": []}).to_string(), false),
        (json!({"start_absolute": 1, "metrics": [5]}).to_string(), false),
        (timed(json!({})), true),
        (timed(json!({"start_absolute": 5, "end_absolute": 4})), true),
        (timed(json!({"start_absolute": 5, "end_absolute": 5})), false),
        (timed(json!({"start_absolute": "x"})), false),
        (timed(json!({"start_relative": {"value": 1, "unit": "x"}})), false),
        (timed(json!({"start_relative": {"value": 1}})), true),
        (timed(json!({"start_relative": {"value": -1, "unit": "hours"}})), true),
        (
            timed(
                json!({"start_relative": {"value": 0, "unit": "hours"}, "end_absolute": 9_999_999_999_999_i64}),
            ),
            false,
        ),
        (timed(json!({"start_absolute": 5, "end_absolute": 9, "cache_time": -1})), true),
        (timed(json!({"start_absolute": 5, "end_absolute": 9, "time_zone": "Nowhere"})), false),
        (timed(json!({"start_absolute": 5, "end_absolute": 9, "time_zone": ""})), false),
        (timed(json!({"start_absolute": 5, "end_absolute": 9, "unknown": 1})), false),
        (with(json!({"name": ""})), true),
        (with(json!({"name": null})), false),
        (with(json!({"unknown": 5})), false),
        (with(json!({"order": "x"})), true),
        (with(json!({"order": 5})), false),
        (with(json!({"name": 5})), false),
        (timed(json!({"start_absolute": 5, "end_absolute": 9, "time_zone": "+0200"})), false),
        (timed(json!({"start_absolute": 5, "end_absolute": 9, "time_zone": "+02"})), false),
        (with(json!({"limit": -1})), false),
        (with(json!({"limit": 0})), false),
        (with(json!({"limit": "2"})), false),
        (with(json!({"limit": "x"})), false),
        (with(json!({"exclude_tags": "true"})), false),
        (with(json!({"tags": {"": "a"}})), true),
        (with(json!({"tags": {"h": ""}})), true),
        (with(json!({"tags": {"h": null}})), true),
        (with(json!({"tags": {"h": ["a", null]}})), true),
        (with(json!({"tags": {"h": []}})), false),
        (with(json!({"tags": []})), false),
        (with(json!({"tags": {"h": "regex:["}})), false),
        (aggregator(json!({})), false),
        (aggregator(json!({"name": "nope"})), true),
        (aggregator(json!({"name": "sum", "foo": 1})), false),
        (aggregator(json!({"name": "sum", "trim": true})), false),
        (aggregator(json!({"name": "sum", "sampling": {"value": 2}})), true),
        (aggregator(json!({"name": "sum", "sampling": {"value": 0, "unit": "seconds"}})), false),
        (aggregator(json!({"name": "sum", "sampling": {"value": 1, "unit": "x"}})), false),
        (aggregator(json!({"name": "sum", "align_sampling": "false"})), false),
        (aggregator(json!({"name": "sampler", "sampling": second})), false),
        (aggregator(json!({"name": "sma"})), false),
        (aggregator(json!({"name": "div", "divisor": 0})), false),
        (aggregator(json!({"name": "percentile"})), false),
        (aggregator(json!({"name": "percentile", "percentile": 2})), false),
        (aggregator(json!({"name": "rate", "unit": "x"})), true),
        (aggregator(json!({"name": "trim"})), false),
        (aggregator(json!({"name": "trim", "trim": "x"})), true),
        (aggregator(json!({"name": "filter", "filter_op": "gt"})), false),
        (aggregator(json!({"name": "score", "thresholds": [3]})), false),
        (aggregator(json!({"name": "score", "thresholds": [{"value": 3}]})), false),
        (aggregator(json!({"name": "trim", "trim": ""})), false),
        (aggregator(json!({"name": "trim", "trim": 5})), false),
        (aggregator(json!({"name": "filter", "filter_op": 5, "threshold": 1})), false),
        (aggregator(json!({"name": "dev", "return_type": "pos_sd", "dev_count": 1.5})), false),
        (aggregator(json!({"name": "score", "thresholds": [{"value": 1, "boundary": "INFERIOR"}]})), false),
        (aggregator(json!({"name": "score", "thresholds": [{"value": null}]})), false),
        (group(json!({"name": "tag", "tags": ["h"], "x": 1})), false),
        (group(json!({"name": "value", "range_size": 10, "group_count": 5})), false),
        (group(json!({"name": "bin", "bins": [0], "range_size": 5})), false),
        (group(json!({"name": "time", "range_size": second, "group_count": 2, "time_zone": "UTC"})), false),
        (group(json!({"name": "x"})), true),
        (group(json!({"name": "tag"})), false),
        (group(json!({"name": "tag", "tags": []})), true),
        (group(json!({"name": "value", "range_size": 0})), false),
        (group(json!({"name": "bin", "bins": []})), false),
        (group(json!({"name": "time", "range_size": second})), false),
        (group(json!({"name": "time", "group_count": 2})), false),
    ]
}
