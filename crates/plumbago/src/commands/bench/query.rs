//! `plumbago bench find` and `bench render`: how long an answer takes over one kept-alive connection.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::bench::http::{Client, encode};
use crate::bench::names::{self, Shape};
use crate::error::{Exit, Failure};
use crate::output::print;

/// Where to ask, and how often.
#[derive(Debug, Args)]
struct Asking {
    /// Where the server answers Graphite's API
    #[arg(long, default_value = "127.0.0.1:8080")]
    addr: String,
    /// Requests for each query, one after the other
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Time for each query at most, in seconds; at least 3 requests are made
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Print a JSON list instead of a table
    #[arg(long)]
    json: bool,
}

/// What to search.
#[derive(Debug, Args)]
pub struct FindArgs {
    #[command(flatten)]
    asking: Asking,
    /// Globs; without any, a set that fits the names of `bench load`
    globs: Vec<String>,
    /// Ask for all full names (/metrics/expand) instead of one level (/metrics/find)
    #[arg(long)]
    expand: bool,
    /// The names that `bench load` made
    #[arg(long, value_enum, default_value_t = Shape::Hosts)]
    names: Shape,
}

/// What to render.
#[derive(Debug, Args)]
pub struct RenderArgs {
    #[command(flatten)]
    asking: Asking,
    /// Targets, each timed by itself
    #[arg(required = true)]
    targets: Vec<String>,
    /// Begin of the time range
    #[arg(long, default_value = "-24h")]
    from: String,
    /// End of the time range
    #[arg(long, default_value = "now")]
    until: String,
    /// Format of the answer
    #[arg(long, default_value = "json")]
    format: String,
    /// Points of a series at most
    #[arg(long)]
    max_data_points: Option<u32>,
}

/// Times searches.
pub fn find(args: &FindArgs) -> Result<(), Failure> {
    let queries = match args.globs.as_slice() {
        [] => default_queries(args.names),
        globs => globs.iter().map(|glob| Query::find(glob, args.expand)).collect(),
    };
    time_all(&args.asking, queries)
}

/// Times renders.
pub fn render(args: &RenderArgs) -> Result<(), Failure> {
    let query = |target: &String| {
        let mut path = format!("/render?target={}&from={}", encode(target), encode(&args.from));
        path += &format!("&until={}&format={}", encode(&args.until), encode(&args.format));
        if let Some(points) = args.max_data_points {
            path += &format!("&maxDataPoints={points}");
        }
        Query { label: format!("render {target}"), path }
    };
    time_all(&args.asking, args.targets.iter().map(query).collect())
}

struct Query {
    label: String,
    path: String,
}

impl Query {
    fn find(glob: &str, expand: bool) -> Self {
        let (verb, path) = match expand {
            true => ("expand", "/metrics/expand?leavesOnly=1&query="),
            false => ("find", "/metrics/find?query="),
        };
        Self { label: format!("{verb} {glob}"), path: format!("{path}{}", encode(glob)) }
    }
}

fn default_queries(shape: Shape) -> Vec<Query> {
    let mut exact = Vec::new();
    names::write(&mut exact, shape, "", 0);
    let exact = String::from_utf8_lossy(&exact).into_owned();
    let host = exact.split('.').take(if shape == Shape::Hosts { 3 } else { 4 }).collect::<Vec<_>>().join(".");
    let mut queries = vec![Query::find(&exact, false), Query::find(&format!("{host}.*"), false)];
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
    queries.extend(globs.iter().map(|glob| Query::find(glob, true)));
    queries
}

struct Timing {
    label: String,
    requests: usize,
    p50_ms: f64,
    p99_ms: f64,
    results: usize,
    bytes: usize,
}

fn time_all(asking: &Asking, queries: Vec<Query>) -> Result<(), Failure> {
    let mut client = Client::new(&asking.addr);
    let timings = queries.iter().map(|q| time(&mut client, q, asking)).collect::<Result<Vec<_>, _>>()?;
    let out = if asking.json { json_list(&timings) } else { table(&timings) };
    Ok(print(&out)?)
}

fn time(client: &mut Client, query: &Query, asking: &Asking) -> Result<Timing, Failure> {
    // The first request opens the connection and fills caches; it is not counted.
    let first = client.get(&query.path)?;
    if first.status != 200 {
        let text = String::from_utf8_lossy(&first.body);
        let message = format!("{}: answer {}: {}", query.label, first.status, text.trim());
        return Err(Failure::new(Exit::Internal, anyhow::anyhow!(message)));
    }
    let begun = Instant::now();
    let mut times = Vec::with_capacity(asking.count);
    while times.len() < asking.count.max(3) {
        if times.len() >= 3 && begun.elapsed() > Duration::from_secs(asking.seconds) {
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
        p50_ms: at_share(&times, 0.50),
        p99_ms: at_share(&times, 0.99),
        results: results(&first.body),
        bytes: first.body.len(),
    })
}

/// The value at a share of the sorted times.
fn at_share(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Names or series in a JSON answer; 0 for other formats.
fn results(body: &[u8]) -> usize {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(items)) => items.len(),
        Ok(Value::Object(fields)) => fields.get("results").and_then(Value::as_array).map_or(0, Vec::len),
        _ => 0,
    }
}

fn table(timings: &[Timing]) -> String {
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

fn json_list(timings: &[Timing]) -> String {
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
    fn shares_of_sorted_times() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((at_share(&times, 0.5), at_share(&times, 0.99)), (100.0, 198.0));
        assert_eq!(at_share(&[7.0], 0.99), 7.0);
        assert!(at_share(&[], 0.5).is_nan());
    }

    #[test]
    fn results_are_counted() {
        assert_eq!(results(b"[1, 2]"), 2);
        assert_eq!(results(br#"{"results": ["a", "b", "c"]}"#), 3);
        assert_eq!(results(b"a,b\n"), 0);
    }
}
