//! The daemon and a real KairosDB have the same points and get the same queries; their answers are compared
//! by value. Where they differ on purpose, [`answers::on_purpose`] has the reason.
//!
//! `PLUMBAGO_SEED` sets the seed of the queries, `PLUMBAGO_KAIROSDB_QUERIES` their number.

mod answers;
mod grafana;
mod points;
mod queries;
mod writes;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_kairosdb_node::kairosdb::{self, KairosDb};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http::{self, Response};
use plumbago_tests::rounds::{is_long, number};
use plumbago_tests::wait::wait_until;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use answers::Verdict;
use queries::Query;

const QUERY: &str = "/api/v1/datapoints/query";

/// Number of threads that send queries.
const ASKERS: usize = 3;

fn seed() -> u64 {
    number("PLUMBAGO_SEED").unwrap_or(20_261_125)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// Both servers with the same points.
struct Both {
    real: KairosDb,
    ours: Daemon,
    /// A daemon that has `summed` and `averaged`, whose points are older than the first stage by now.
    aged: Daemon,
    _setups: [Setup; 2],
}

impl Both {
    fn start() -> Option<Self> {
        let real = kairosdb::for_test()?;
        let setup = || {
            let mut setup = Setup::new();
            setup.schemas(points::SCHEMAS).aggregation(points::AGGREGATION);
            setup.set("api.point_writes", "true").set("api.deletes", "true");
            setup
        };
        let (setup, mut setup_aged) = (setup(), setup());
        let ours = setup.start();
        // Points that are older than the first stage when they arrive are not stored in it. This daemon's clock is
        // set back, so that they arrive in time.
        let aged = setup_aged.clock(points::oldest_end(now())).start();
        Some(Self { real, ours, aged, _setups: [setup, setup_aged] })
    }

    fn addresses(&self) -> Addresses {
        Addresses { real: self.real.http(), ours: self.ours.api(), aged: self.aged.api() }
    }

    /// Sends a body to both servers.
    fn post(&self, path: &str, body: &str) -> (Response, Response) {
        let of = |address| http::request(address, "POST", path, "", body);
        (of(self.real.http()), of(self.ours.api()))
    }

    /// Sends points to both servers and waits until both return all of them.
    fn fill(&self, bodies: &[Value]) {
        for body in bodies {
            let (real, ours) = self.post("/api/v1/datapoints", &body.to_string());
            assert_eq!((real.status, ours.status), (204, 204), "{} {}", real.body, ours.body);
        }
    }

    /// Waits until both servers answer a query with this many points.
    fn wait_points(&self, query: &Value, count: u64) {
        for address in [self.real.http(), self.ours.api()] {
            wait_until(&format!("{count} points of {query}"), || points_read(address, query) == Some(count));
        }
    }
}

/// The number of points that were read for a query.
fn points_read(address: SocketAddr, query: &Value) -> Option<u64> {
    let answer = http::request(address, "POST", QUERY, "", &query.to_string());
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    answer["queries"][0]["sample_size"].as_u64()
}

/// The addresses of KairosDB and of the daemons.
#[derive(Clone, Copy)]
struct Addresses {
    real: SocketAddr,
    ours: SocketAddr,
    aged: SocketAddr,
}

/// The results of the comparisons.
#[derive(Default)]
struct Tally {
    equal: usize,
    on_purpose: BTreeMap<&'static str, usize>,
    different: Vec<String>,
}

impl Tally {
    fn add(&mut self, verdict: Verdict, query: &str) {
        match verdict {
            Verdict::Equal => self.equal += 1,
            Verdict::OnPurpose(reason) => *self.on_purpose.entry(reason).or_default() += 1,
            Verdict::Different(what) => self.different.push(format!("{query}\n    {what}")),
        }
    }

    /// Prints the counts and checks them.
    fn check(&self, what: &str) {
        let on_purpose: usize = self.on_purpose.values().sum();
        println!(
            "{what}: {} equal, {on_purpose} different on purpose, {} different",
            self.equal,
            self.different.len()
        );
        for (reason, count) in &self.on_purpose {
            println!("  {count}: {reason}");
        }
        let shown: Vec<&str> = self.different.iter().take(25).map(String::as_str).collect();
        let shown = format!("{what}: {}\n{}", self.different.len(), shown.join("\n"));
        // One query in a thousand may differ: the last digits of a fitted line may decide on which side of a
        // threshold its end is.
        assert!(self.different.len() * 1000 <= self.equal, "{shown}");
        if !self.different.is_empty() {
            println!("{shown}");
        }
    }
}

/// Sends a query to KairosDB and to the daemon, and compares the answers.
fn ask(at: Addresses, path: &str, query: &Query) -> Verdict {
    let text = query.body.to_string();
    let verdict = || {
        let real = http::request(at.real, "POST", path, "", &queries::without_regexes(&text));
        let ours = http::request(if query.is_coarse { at.aged } else { at.ours }, "POST", path, "", &text);
        answers::compare(query, &real, &ours)
    };
    match verdict() {
        // Time passes between the two requests, so a point may have left the range of a relative query.
        Verdict::Different(_) if query.is_relative => verdict(),
        verdict => verdict,
    }
}

/// A single test, because a server in Java takes seconds to start and much memory.
#[test]
fn the_daemon_answers_as_kairosdb() {
    let Some(both) = Both::start() else { return };
    generated_queries(&both);
    tag_queries(&both);
    grafana_queries(&both);
    lists(&both);
    wrong_queries(&both);
    writes(&both);
    deletions(&both);
    both.ours.stop_well();
    both.aged.stop_well();
}

fn generated_queries(both: &Both) {
    let now = now();
    let bodies = points::bodies(now);
    both.fill(&bodies);
    for body in bodies.iter().filter(|body| points::COARSE.iter().any(|name| body[0]["name"] == *name)) {
        let taken = http::request(both.aged.api(), "POST", "/api/v1/datapoints", "", &body.to_string());
        assert_eq!(taken.status, 204, "{}", taken.body);
    }
    both.aged.flush();
    both.aged.set_clock(now);
    for (query, count) in points::counts(&bodies, now) {
        both.wait_points(&query, count);
    }
    // KairosDB writes points some time after it has answered.
    for metric in points::COARSE {
        let (start, length) = points::span(metric, now);
        let query = queries::within(metric, start * 1000, (start + length) * 1000);
        let body = bodies.iter().find(|body| body[0]["name"] == metric).unwrap();
        let lengths = body.as_array().unwrap().iter().map(|one| one["datapoints"].as_array().unwrap().len());
        let count = lengths.sum::<usize>() as u64;
        for address in [both.real.http(), both.aged.api()] {
            wait_until(&format!("{count} points of {metric}"), || {
                points_read(address, &query) == Some(count)
            });
        }
    }
    let usual = if is_long() { 6000 } else { 3000 };
    let (seed, count) = (seed(), number("PLUMBAGO_KAIROSDB_QUERIES").unwrap_or(usual));
    println!("seed {seed} (PLUMBAGO_SEED), {count} queries (PLUMBAGO_KAIROSDB_QUERIES)");
    let addresses = both.addresses();
    let (next, tally) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..ASKERS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let query = queries::query(&mut SmallRng::seed_from_u64(seed + at), now);
                    let verdict = ask(addresses, QUERY, &query);
                    tally.lock().unwrap().add(verdict, &query.body.to_string());
                }
            });
        }
    });
    tally.into_inner().unwrap().check("queries");
}

fn tag_queries(both: &Both) {
    let (seed, mut tally) = (seed(), Tally::default());
    for at in 0..200 {
        let query = queries::tags(&mut SmallRng::seed_from_u64(seed + at));
        let verdict = ask(both.addresses(), "/api/v1/datapoints/query/tags", &query);
        tally.add(verdict, &query.body.to_string());
    }
    tally.check("query/tags");
}

fn grafana_queries(both: &Both) {
    for (path, queries) in [(QUERY, grafana::panels()), ("/api/v1/datapoints/query/tags", grafana::tags())] {
        for query in queries {
            match ask(both.addresses(), path, &query) {
                Verdict::Equal => {}
                verdict => panic!("{path}: {verdict:?}: {}", query.body),
            }
        }
    }
}

/// Lists of names are equal, except that KairosDB also has metrics about itself.
fn lists(both: &Both) {
    let names = |address, path: &str| {
        let answer = http::get(address, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let names =
            answer["results"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with("kairosdb.")).collect();
        names.sort();
        names
    };
    for path in ["/api/v1/metricnames", "/api/v1/metricnames?prefix=ho", "/api/v1/metricnames?prefix=none"] {
        assert_eq!(names(both.ours.api(), path), names(both.real.http(), path), "{path}");
    }
    // KairosDB 1.3 no longer has these lists. Our lists are those of 1.2.
    for path in ["/api/v1/tagnames", "/api/v1/tagvalues"] {
        assert_eq!(
            (http::get(both.real.http(), path).status, http::get(both.ours.api(), path).status),
            (404, 200)
        );
    }
}

fn wrong_queries(both: &Both) {
    let point = json!([{"name": "m", "tags": {"h": "a"}, "datapoints": [[1_698_537_600_000_i64, 1]]}]);
    both.fill(&[point]);
    both.wait_points(&queries::plain("m"), 1);
    let mut tally = Tally::default();
    for (body, has_same_text) in queries::wrong() {
        let (real, ours) = both.post(QUERY, &body);
        tally.add(answers::refusal(&real, &ours, has_same_text), &body);
    }
    tally.check("wrong queries");
}

fn writes(both: &Both) {
    let mut tally = Tally::default();
    for write in writes::all() {
        tally.add(write.compare(both), &write.shown());
    }
    tally.check("writes");
}

/// Deletes time ranges from both servers. The remaining points are equal.
fn deletions(both: &Both) {
    const START: i64 = 1_698_537_600;
    const METRIC: &str = "gone";
    let series = ["a", "b"].map(|host| {
        let points: Vec<Value> = (0..60).map(|at| json!([(START + at) * 1000, at])).collect();
        json!({"name": METRIC, "tags": {"host": host}, "datapoints": points})
    });
    both.fill(&[json!(series)]);
    let left = Query {
        body: queries::plain(METRIC),
        is_relative: false,
        is_fitted: false,
        has_descending_ranges: false,
        is_coarse: false,
    };
    both.wait_points(&left.body, 120);
    let mut random = SmallRng::seed_from_u64(seed());
    for _ in 0..20 {
        let from = START * 1000 + random.random_range(-2000..60_000);
        let until = from + random.random_range(0..4000);
        let mut body = queries::within(METRIC, from, until);
        if random.random_bool(0.7) {
            let host = if random.random_bool(0.5) { "a" } else { "b" };
            body["metrics"][0]["tags"] = json!({ "host": host });
        }
        let (real, ours) = both.post("/api/v1/datapoints/delete", &body.to_string());
        assert_eq!((real.status, ours.status), (204, 204), "{body}: {} {}", real.body, ours.body);
        wait_until(&format!("the same points after {body}"), || {
            matches!(ask(both.addresses(), QUERY, &left), Verdict::Equal)
        });
    }
}
