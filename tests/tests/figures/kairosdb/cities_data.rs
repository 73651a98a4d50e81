//! Three metrics of very many cities in two of KairosDB's periods, and what both servers store about their
//! names.

use std::ops::Range;

use plumbago_cassandra_node::Cluster;
use plumbago_tests::daemon::Daemon;
use serde_json::{Value, json};

use super::{PERIOD, object};

pub(super) const WEEK: i64 = 7 * 86_400;
/// The weeks of both periods.
pub(super) const WEEKS: i64 = 2 * PERIOD / WEEK;
pub(super) static METRICS: [&str; 3] = ["Temperature", "Humidity", "Wind"];
/// Cities with a point every [`STEP`] seconds; all other cities have one point in each period.
pub(super) static FINE: [&str; 2] = ["Antalya", "Izmir"];
pub(super) const STEP: i64 = 600;
/// Storage rules for these points.
pub(super) const SCHEMAS: &str = "[fine]\npattern = city=(Antalya|Izmir)$\nretentions = 10m:2y\n\
     [all]\npattern = .*\nretentions = 1d:2y\n";

/// Number of series in a request.
const BATCH: usize = 2000;

pub(super) fn city(number: usize) -> String {
    format!("c{number:06}")
}

/// The number of series of this many ordinary cities and of the cities of [`FINE`].
pub(super) fn series(cities: usize) -> usize {
    METRICS.len() * (cities + FINE.len())
}

fn points_of(metric: usize, times: impl Iterator<Item = i64>) -> impl Iterator<Item = (i64, f64)> {
    let base = [15, 60, 5][metric];
    times.map(move |time| (time, (base + time / STEP % 20) as f64))
}

/// Bodies with a point of each metric of these cities.
pub(super) fn of_cities(cities: Range<usize>, time: i64) -> impl Iterator<Item = String> {
    let each = BATCH / METRICS.len();
    let parts = cities.clone().step_by(each).map(move |from| from..(from + each).min(cities.end));
    parts.map(move |part| {
        let objects = part.flat_map(|number| {
            let tags = format!(r#""city":"{}""#, city(number));
            let metrics = METRICS.iter().enumerate();
            metrics
                .map(|(at, metric)| object(metric, &tags, points_of(at, std::iter::once(time))))
                .collect::<Vec<_>>()
        });
        format!("[{}]", objects.collect::<Vec<_>>().join(","))
    })
}

/// Bodies with a week of the cities of [`FINE`].
pub(super) fn fine_week(start: i64) -> impl Iterator<Item = String> {
    let all = FINE.iter().flat_map(|city| METRICS.iter().enumerate().map(move |metric| (city, metric)));
    all.map(move |(city, (at, metric))| {
        let times = (start..start + WEEK).step_by(STEP as usize);
        format!("[{}]", object(metric, &format!(r#""city":"{city}""#), points_of(at, times)))
    })
}

/// A query of some metrics of some cities.
pub(super) fn query(metrics: &[&str], cities: &[String], (from, until): (i64, i64)) -> Value {
    let metric = |name: &&str| json!({"name": name, "tags": {"city": cities}});
    let metrics: Vec<Value> = metrics.iter().map(metric).collect();
    json!({"start_absolute": from * 1000, "end_absolute": until * 1000 - 1, "metrics": metrics})
}

/// The query with a result for each city.
pub(super) fn by_city(mut query: Value) -> Value {
    for metric in query["metrics"].as_array_mut().unwrap() {
        metric["group_by"] = json!([{"name": "tag", "tags": ["city"]}]);
    }
    query
}

/// Number of rows of KairosDB's index tables `row_keys` and `row_key_time_index` for the three metrics in the
/// period that begins at `start`.
pub(super) fn index_rows(node: &Cluster, keyspace: &str, start: i64) -> (u64, u64) {
    let mut cql = node.nodes()[0].connect().unwrap();
    let mut count = |table: &str| {
        let of = |metric: &&str| {
            let rows = cql.query(&format!(
                "SELECT count(*) FROM {keyspace}.{table} WHERE metric = '{metric}' \
                 AND table_name = 'data_points' AND row_time = {}",
                start * 1000
            ));
            rows.unwrap().iter().next().unwrap().integer(0).unwrap() as u64
        };
        METRICS.iter().map(of).sum::<u64>()
    };
    (count("row_keys"), count("row_key_time_index"))
}

/// The three metrics among the names that KairosDB lists in `string_index`.
pub(super) fn listed_names(node: &Cluster, keyspace: &str) -> usize {
    let mut cql = node.nodes()[0].connect().unwrap();
    let rows = cql.query(&format!(
        "SELECT column1 FROM {keyspace}.string_index WHERE key = textAsBlob('metric_names')"
    ));
    rows.unwrap().texts().iter().filter(|name| METRICS.contains(&name.as_str())).count()
}

/// Number of names that the daemon has created so far, and the memory of its index in bytes.
pub(super) fn names_and_memory(daemon: &Daemon) -> (u64, u64) {
    let counters = daemon.counters();
    let created = counters.sum("plumbago_engine_created_metrics_total");
    (created, counters.sum("plumbago_index_memory_bytes"))
}
