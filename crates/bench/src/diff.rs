//! Compares the answers of two Graphite servers to the same render requests.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;

use crate::http::encode;
use crate::{BenchError, Client};

/// The percentiles that a summary shows.
const PERCENTILES: [f64; 5] = [50.0, 75.0, 90.0, 99.0, 99.9];

/// The address of a server: `http://HOST:PORT`, optionally followed by a path to put before `/render`.
#[derive(Debug)]
pub struct Side {
    client: Client,
    prefix: String,
}

impl Side {
    /// Reads an address. `user` is the user and password that the server wants, as `NAME:PASSWORD`.
    ///
    /// # Errors
    ///
    /// The reason why the address cannot be used.
    pub fn parse(url: &str, user: Option<&str>) -> Result<Self, String> {
        let (host, prefix) = split(url)?;
        let client = Client::new(&host);
        let client = if let Some(user) = user { client.with_user(user) } else { client };
        Ok(Self { client, prefix })
    }

    /// Renders a target. Returns its series, and how long the request took in milliseconds.
    fn render(&self, target: &str, from: &str, until: &str) -> Result<(Rendered, f64), BenchError> {
        let query =
            [("target", target), ("from", from), ("until", until), ("format", "json"), ("noCache", "1")];
        let query: Vec<String> =
            query.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
        let began = Instant::now();
        let answer = self.client.get(&format!("{}/render?{}", self.prefix, query.join("&")))?;
        let took_ms = began.elapsed().as_secs_f64() * 1000.0;
        let refused =
            |body: String| BenchError::Refused { query: target.to_owned(), status: answer.status, body };
        if answer.status != 200 {
            return Err(refused(String::from_utf8_lossy(&answer.body).chars().take(300).collect()));
        }
        let series = serde_json::from_slice(&answer.body).map_err(|error| refused(error.to_string()))?;
        Ok((Rendered::new(&series), took_ms))
    }
}

/// Splits the address of a server into `HOST:PORT` and the path before `/render`, which is empty or begins with a
/// slash.
pub(crate) fn split(url: &str) -> Result<(String, String), String> {
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest,
        None => url,
        Some((scheme, _)) => return Err(format!("{url}: {scheme} is not supported, only http")),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() || host.contains('@') {
        // The part before the @ may contain a password, so the message leaves it out.
        let shown = url.rsplit_once('@').map_or(url, |(_, shown)| shown);
        return Err(format!("{shown}: want http://HOST:PORT, or http://NAME:PASSWORD@HOST:PORT"));
    }
    let prefix = path.trim_end_matches('/').trim_end_matches("render").trim_end_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
    Ok((host.to_owned(), prefix))
}

/// The points of an answer, by series and timestamp.
#[derive(Debug, Default)]
struct Rendered(BTreeMap<String, BTreeMap<i64, Option<f64>>>);

impl Rendered {
    fn new(answer: &Value) -> Self {
        let series = answer.as_array().into_iter().flatten().map(|series| {
            let points = series["datapoints"].as_array().into_iter().flatten();
            let point = |point: &Value| Some((point.get(1)?.as_i64()?, point.get(0)?.as_f64()));
            (series["target"].as_str().unwrap_or_default().to_owned(), points.filter_map(point).collect())
        });
        Self(series.collect())
    }
}

/// How the answers to one target differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The target, as it was requested from both servers.
    pub target: String,
    /// The number of timestamps, over all series, for which at least one server has a value.
    pub compared: u64,
    /// The number of these timestamps at which the values differ by more than the threshold.
    pub different: u64,
    /// The largest relative difference of two values, from 0 to 1.
    pub worst: f64,
    /// The series and timestamp of the largest difference.
    pub worst_at: Option<(String, i64)>,
}

impl Difference {
    /// The share of the compared timestamps at which the values differ, from 0 to 1.
    pub fn share(&self) -> f64 {
        if self.compared == 0 { 0.0 } else { self.different as f64 / self.compared as f64 }
    }
}

/// The result of a comparison.
#[derive(Debug, Default, Serialize)]
pub struct Comparison {
    /// One entry for each target that both servers answered, in the order of the targets.
    pub targets: Vec<Difference>,
    /// Requests without an answer: the server (0 or 1), the target and the error.
    pub errors: Vec<(usize, String, String)>,
    /// The time of each request, for each server, in milliseconds and in ascending order.
    pub took_ms: [Vec<f64>; 2],
}

impl Comparison {
    /// Whether both servers answered everything with the same values.
    pub fn is_equal(&self) -> bool {
        self.errors.is_empty() && self.targets.iter().all(|target| target.different == 0)
    }

    /// Percentiles, each with its value, of the share of differing timestamps per target.
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let mut shares: Vec<f64> = self.targets.iter().map(Difference::share).collect();
        shares.sort_by(f64::total_cmp);
        percentiles(&shares)
    }
}

/// Percentiles of sorted values, without interpolation.
pub fn percentiles(sorted: &[f64]) -> Vec<(f64, f64)> {
    let at =
        |percent: f64| ((sorted.len() as f64 * percent / 100.0).ceil() as usize).clamp(1, sorted.len()) - 1;
    if sorted.is_empty() {
        return Vec::new();
    }
    PERCENTILES.iter().map(|percent| (*percent, sorted[at(*percent)])).collect()
}

/// Sends every target to both servers and compares the answers. Relative differences up to `threshold` (0 to
/// 1) do not count. `each` is called after each target.
pub fn compare(
    sides: &[Side; 2],
    targets: &[String],
    (from, until): (&str, &str),
    threshold: f64,
    each: &mut dyn FnMut(),
) -> Comparison {
    let mut all = Comparison::default();
    for target in targets {
        let mut answers = Vec::new();
        for (at, side) in sides.iter().enumerate() {
            match side.render(target, from, until) {
                Ok((rendered, took_ms)) => {
                    all.took_ms[at].push(took_ms);
                    answers.push(rendered);
                }
                Err(error) => all.errors.push((at, target.clone(), error.to_string())),
            }
        }
        if let [a, b] = &answers[..] {
            all.targets.push(difference(target, a, b, threshold));
        }
        each();
    }
    all.took_ms.iter_mut().for_each(|took| took.sort_by(f64::total_cmp));
    all
}

fn difference(target: &str, a: &Rendered, b: &Rendered, threshold: f64) -> Difference {
    let mut found =
        Difference { target: target.to_owned(), compared: 0, different: 0, worst: 0.0, worst_at: None };
    let none = BTreeMap::new();
    let names: std::collections::BTreeSet<&String> = a.0.keys().chain(b.0.keys()).collect();
    for name in names {
        let (a, b) = (a.0.get(name).unwrap_or(&none), b.0.get(name).unwrap_or(&none));
        let times: std::collections::BTreeSet<&i64> = a.keys().chain(b.keys()).collect();
        for time in times {
            let Some(gap) = gap(a.get(time).copied().flatten(), b.get(time).copied().flatten()) else {
                continue;
            };
            found.compared += 1;
            found.different += u64::from(gap > threshold);
            if gap > found.worst {
                (found.worst, found.worst_at) = (gap, Some((name.clone(), *time)));
            }
        }
    }
    found
}

/// The relative difference of two values, from 0 to 1: 1 if only one of them is known, `None` if neither is.
fn gap(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (None, None) => None,
        (Some(a), Some(b)) if a == b => Some(0.0),
        (Some(a), Some(b)) => Some((a - b).abs() / (a.abs() + b.abs())),
        _ => Some(1.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gaps_are_relative() {
        assert_eq!(gap(Some(0.0), Some(0.0)), Some(0.0));
        assert_eq!(gap(Some(1.0), Some(3.0)), Some(0.5));
        assert_eq!(gap(Some(-1.0), Some(1.0)), Some(1.0));
        assert_eq!((gap(Some(2.0), None), gap(None, None)), (Some(1.0), None));
    }

    #[test]
    fn series_and_times_that_only_one_has_count() {
        let a = Rendered::new(&json!([{"target": "x", "datapoints": [[1.0, 60], [2.0, 120], [null, 180]]}]));
        let b = Rendered::new(&json!([
            {"target": "x", "datapoints": [[1.0, 60], [2.01, 120], [null, 180]]},
            {"target": "y", "datapoints": [[5.0, 60]]},
        ]));
        let found = difference("t", &a, &b, 0.01);
        assert_eq!((found.compared, found.different, found.worst), (3, 1, 1.0));
        assert_eq!(found.worst_at, Some(("y".to_owned(), 60)));
        assert_eq!(difference("t", &a, &a, 0.0).different, 0);
    }

    #[test]
    fn percentiles_are_values_that_occur() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(percentiles(&values), [(50.0, 5.0), (75.0, 8.0), (90.0, 9.0), (99.0, 10.0), (99.9, 10.0)]);
        assert!(percentiles(&[]).is_empty());
    }

    #[test]
    fn addresses() {
        let prefix = |url: &str| Side::parse(url, None).map(|side| side.prefix);
        assert_eq!(prefix("http://a:80"), Ok(String::new()));
        assert_eq!(prefix("a:8080/graphite/render/"), Ok("/graphite".to_owned()));
        assert!(prefix("https://a").is_err() && prefix("http:///x").is_err());
    }
}
