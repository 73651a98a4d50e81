//! Measures the time of requests for names and graphs over one kept-alive connection.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::encode;
use crate::load::names::{self, Shape};
use crate::{BenchError, Client};

/// The number of requests for each query that are made even after the time limit.
const REQUESTS_MIN: usize = 3;

/// How often to repeat each query.
#[derive(Debug, Clone, Copy)]
pub struct Repeat {
    /// Largest number of timed requests for each query, made one after the other; at least 3 are made.
    pub count: usize,
    /// No further request for a query is made after this time.
    pub time_limit: Duration,
}

/// A request and the label that it is reported under.
#[derive(Debug, Clone)]
pub struct Query {
    /// What is requested, like `find servers.*`.
    pub label: String,
    path: String,
}

/// The time range and the format of a render request.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// Start of the time range, in Graphite's notation.
    pub from: String,
    /// End of the time range, in Graphite's notation.
    pub until: String,
    /// Format of the answer, as in the `format` parameter.
    pub format: String,
    /// The `maxDataPoints` parameter, if any.
    pub max_data_points: Option<u32>,
}

/// The times of the requests for one query.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The label of the query.
    pub label: String,
    /// The number of timed requests.
    pub requests: usize,
    /// Median time in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile in milliseconds.
    pub p99_ms: f64,
    /// The number of names or series in the answer, if it is JSON; else 0.
    pub results: usize,
    /// The size of the answer's body in bytes.
    pub bytes: usize,
}

impl Query {
    /// A query for one level of names, by `/metrics/find`.
    pub fn find(glob: &str) -> Self {
        Self { label: format!("find {glob}"), path: format!("/metrics/find?query={}", encode(glob)) }
    }

    /// A query for all full names, by `/metrics/expand`.
    pub fn expand(glob: &str) -> Self {
        let path = format!("/metrics/expand?leavesOnly=1&query={}", encode(glob));
        Self { label: format!("expand {glob}"), path }
    }

    /// A query for one target, by `/render`.
    pub fn render(target: &str, options: &RenderOptions) -> Self {
        let mut path = format!("/render?target={}&from={}", encode(target), encode(&options.from));
        path += &format!("&until={}&format={}", encode(&options.until), encode(&options.format));
        if let Some(points) = options.max_data_points {
            path += &format!("&maxDataPoints={points}");
        }
        Self { label: format!("render {target}"), path }
    }

    /// A query for a path with its query string, reported under `label`.
    pub(crate) fn path(label: impl Into<String>, path: String) -> Self {
        Self { label: label.into(), path }
    }

    /// Queries that match the names that [`crate::load`] sends.
    pub fn defaults(shape: Shape) -> Vec<Self> {
        let mut exact = Vec::new();
        names::write(&mut exact, shape, "", 0);
        let exact = String::from_utf8_lossy(&exact).into_owned();
        let components = if shape == Shape::Hosts { 3 } else { 4 };
        let host = exact.split('.').take(components).collect::<Vec<_>>().join(".");
        let globs: &[&str] = match shape {
            Shape::Hosts => &[
                "*.*.*.load.1m",
                "*.rack07.*.cpu.*.user",
                "dc1.rack07.*.cpu.3.user",
                "dc1.*.*.*.*.*",
                "dc{1,2}.rack0[0-3].*.cpu.{0,1}.idle",
            ],
            Shape::Mixed => &[
                "servers.*.db.*.cpu.total.user",
                "servers.*.*.*.uptime",
                "{servers,apps}.*.frontend.frontend-000[0-9]?.load.*",
                "servers.**.uptime",
            ],
        };
        let mut queries = vec![Self::find(&exact), Self::find(&format!("{host}.*"))];
        queries.extend(globs.iter().map(|glob| Self::expand(glob)));
        queries
    }
}

/// Times the queries one after the other.
///
/// # Errors
///
/// [`BenchError::Request`] when a request gets no answer, [`BenchError::Refused`] when the first answer to a
/// query has a status other than 200.
pub fn time_all(client: &Client, queries: &[Query], repeat: Repeat) -> Result<Vec<Timing>, BenchError> {
    queries.iter().map(|query| time(client, query, repeat)).collect()
}

fn time(client: &Client, query: &Query, repeat: Repeat) -> Result<Timing, BenchError> {
    // This request is not timed, because it opens the connection and fills the server's caches.
    let first = client.get(&query.path)?;
    if first.status != 200 {
        let body = String::from_utf8_lossy(&first.body).trim().to_owned();
        return Err(BenchError::Refused { query: query.label.clone(), status: first.status, body });
    }
    let started = Instant::now();
    let mut times = Vec::with_capacity(repeat.count);
    while times.len() < repeat.count.max(REQUESTS_MIN) {
        if times.len() >= REQUESTS_MIN && started.elapsed() > repeat.time_limit {
            break;
        }
        let asked = Instant::now();
        client.get(&query.path)?;
        times.push(asked.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(Timing {
        label: query.label.clone(),
        requests: times.len(),
        p50_ms: percentile(&times, 0.50),
        p99_ms: percentile(&times, 0.99),
        results: results(&first.body),
        bytes: first.body.len(),
    })
}

/// The smallest value that at least `share` (0 to 1) of the sorted values do not exceed; NaN if there are no values.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The number of names or series in a JSON answer; 0 for other formats.
fn results(body: &[u8]) -> usize {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(items)) => items.len(),
        Ok(Value::Object(fields)) => fields.get("results").and_then(Value::as_array).map_or(0, Vec::len),
        _ => 0,
    }
}

/// A table with a heading and one row per query.
pub fn table(timings: &[Timing]) -> String {
    let width = timings.iter().map(|t| t.label.len()).max().unwrap_or(0);
    let mut out = format!("{:width$}   p50 ms    p99 ms   results       bytes  requests\n", "");
    for t in timings {
        out += &format!(
            "{:width$} {:>8.3}  {:>8.3}  {:>8}  {:>10}  {:>8}\n",
            t.label, t.p50_ms, t.p99_ms, t.results, t.bytes, t.requests
        );
    }
    out
}

/// A JSON list with one object per query.
pub fn json_list(timings: &[Timing]) -> String {
    let object = |t: &Timing| {
        json!({"query": t.label, "p50_ms": t.p50_ms, "p99_ms": t.p99_ms, "results": t.results,
               "bytes": t.bytes, "requests": t.requests})
    };
    Value::Array(timings.iter().map(object).collect()).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_sorted_times() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&times, 0.5), percentile(&times, 0.99)), (100.0, 198.0));
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn results_are_counted() {
        assert_eq!(results(b"[1, 2]"), 2);
        assert_eq!(results(br#"{"results": ["a", "b", "c"]}"#), 3);
        assert_eq!(results(b"a,b\n"), 0);
    }
}
