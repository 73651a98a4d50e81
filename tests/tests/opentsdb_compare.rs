//! Sends the same points and the same generated queries to Plumbago and to the real OpenTSDB, and compares their
//! answers by value. Deliberate differences are in `tests/agreed-differences.txt`, and each of them occurs here.
//!
//! `PLUMBAGO_SEED` sets the seed, `PLUMBAGO_OPENTSDB_QUERIES` the number of queries.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::differences::Differences;
use plumbago_tests::http;
use plumbago_tests::opentsdb::OpenTsdb;
use plumbago_tests::rounds::{is_long, number};
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use self::generate::{Query, TAGS, VALUES};

#[path = "opentsdb/generate.rs"]
mod generate;
#[path = "opentsdb/grafana.rs"]
mod grafana;

/// 18:00 UTC on the day on which summer time ended in Rome.
const NOW: i64 = 1_509_300_000;

/// Both servers, with the same points.
struct Both {
    daemon: Daemon,
    judge: OpenTsdb,
    _setup: Setup,
}

impl Both {
    fn start() -> Option<Self> {
        let judge = OpenTsdb::start()?;
        let mut setup = Setup::new();
        setup
            .schemas("[slow]\npattern = ^cmp\\.slow\nretentions = 600s:2y\n[all]\npattern = .*\nretentions = 1s:7d\n")
            .clock(NOW);
        setup.set("api.point_writes", "true");
        let daemon = setup.start();
        judge.assign("tagk", &TAGS);
        judge.assign("tagv", &VALUES);
        Some(Self { daemon, judge, _setup: setup })
    }

    /// Sends points to both servers, and waits until both return them.
    fn put(&self, points: &[Value]) {
        for part in points.chunks(1000) {
            let body = Value::from(part);
            let (status, answer) = self.judge.post("/api/put?summary&sync", &body);
            assert_eq!((status, &answer["failed"]), (200, &json!(0)), "{answer}");
            let answer = http::request(self.daemon.api(), "POST", "/api/put", "", &body.to_string());
            assert_eq!(answer.status, 204, "{}", answer.body);
        }
        let mut counts = BTreeMap::<&str, f64>::new();
        for point in points {
            *counts.entry(point["metric"].as_str().unwrap()).or_default() += 1.0;
        }
        for (metric, count) in counts {
            let sub = json!({"metric": metric, "aggregator": "sum", "downsample": "0all-count"});
            let query = json!({"start": NOW - 400 * 86_400, "end": NOW + 60, "queries": [sub]});
            let has = |(status, answer): (u16, Value)| {
                let dps = answer[0]["dps"].as_object();
                let found = dps.and_then(|dps| dps.values().next()).and_then(Value::as_f64);
                status == 200 && found == Some(count)
            };
            wait_until("OpenTSDB to have the points", || has(self.judge.post("/api/query", &query)));
            wait_until("the daemon to have the points", || {
                has(self.ours("POST", "/api/query", &query.to_string()))
            });
        }
    }

    fn ours(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let answer = http::request(self.daemon.api(), method, path, "", body);
        (answer.status, serde_json::from_str(&answer.body).unwrap_or(Value::String(answer.body)))
    }

    /// The answers of both servers to a request.
    fn ask(&self, method: &str, path: &str, body: &str) -> [(u16, Value); 2] {
        let theirs = http::request(self.judge.address(), method, path, "", body);
        let theirs =
            (theirs.status, serde_json::from_str(&theirs.body).unwrap_or(Value::String(theirs.body)));
        [theirs, self.ours(method, path, body)]
    }
}

#[test]
fn generated_queries_are_answered_as_opentsdb_answers_them() {
    let Some(both) = Both::start() else { return };
    let seed = number("PLUMBAGO_SEED").unwrap_or(20_261_125);
    let count = number("PLUMBAGO_OPENTSDB_QUERIES").unwrap_or(if is_long() { 2100 } else { 1200 });
    let mut random = StdRng::seed_from_u64(seed);
    let points = generate::points(&mut random);
    both.put(&points);
    let mut agreed = Differences::listed("opentsdb.");
    let (mut equal, mut with_points, mut refused, mut complaints) = (0, 0, 0, Vec::new());
    for _ in 0..count {
        let mut query = Query::random(&mut random);
        if random.random_bool(0.1) {
            query = query.with_second(Query::random(&mut random));
        }
        let (method, path, body) = query.request();
        let [theirs, ours] = both.ask(method, &path, &body);
        match judged(&query, &theirs, &ours) {
            Judged::Equal => {
                equal += 1;
                refused += usize::from(theirs.0 != 200);
                with_points += usize::from(has_points(&theirs.1));
            }
            Judged::Agreed(id) => agreed.seen(id),
            Judged::Different(what) => complaints.push(format!("{method} {path} {body}\n    {what}")),
        }
    }
    println!(
        "seed {seed} (PLUMBAGO_SEED): {} points, {count} queries, {equal} equal ({with_points} with points, {refused} \
         refused by both), {} different on purpose, {} different",
        points.len(),
        count as usize - equal - complaints.len(),
        complaints.len()
    );
    let shown = complaints.iter().take(30).fold(String::new(), |mut shown, complaint| {
        let _ = writeln!(shown, "{complaint}");
        shown
    });
    assert!(complaints.is_empty(), "{} of {count} differ:\n{shown}", complaints.len());
    assert!(with_points * 2 > count as usize, "too few queries find points");
    grafana_requests(&both);
    different_on_purpose(&both, &mut agreed);
    agreed.assert_all_seen();
    both.daemon.stop_well();
}

/// The result of comparing the two answers to a query.
enum Judged {
    Equal,
    Agreed(&'static str),
    Different(String),
}

fn judged(query: &Query, theirs: &(u16, Value), ours: &(u16, Value)) -> Judged {
    let Some(what) = difference(theirs, ours) else { return Judged::Equal };
    let named = |result: &Value| result["metric"] != "";
    if let Value::Array(results) = &theirs.1
        && !results.iter().all(named)
    {
        let results: Vec<Value> = results.iter().filter(|result| named(result)).cloned().collect();
        if difference(&(theirs.0, results.into()), ours).is_none() {
            return Judged::Agreed("opentsdb.nameless?");
        }
    }
    if query.has_repeated_hour() {
        Judged::Agreed("opentsdb.repeated-hour?")
    } else {
        Judged::Different(what)
    }
}

fn grafana_requests(both: &Both) {
    for (path, body) in grafana::panels() {
        let [theirs, ours] = both.ask("POST", path, &body.to_string());
        assert_eq!((theirs.0, difference(&theirs, &ours)), (200, None), "{path} {body}");
        assert!(has_points(&ours.1), "{path} {body}");
        let queries = |answer: &Value| {
            let results = answer.as_array().unwrap().iter();
            results.map(|result| result["query"]["index"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(queries(&ours.1), queries(&theirs.1), "{path} {body}");
    }
    for path in grafana::LISTS {
        let [theirs, ours] = both.ask("GET", path, "");
        assert_eq!(theirs.0, 200, "{path}");
        assert_eq!(listed(&ours.1), listed(&theirs.1), "{path}");
    }
    for path in ["/api/aggregators", "/api/config/filters"] {
        let [theirs, ours] = both.ask("GET", path, "");
        // Our list contains what our daemon supports. The list of OpenTSDB 2.4.1 is longer.
        let names = |answer: &Value| match answer {
            Value::Object(filters) => filters.keys().cloned().collect(),
            names => listed(names),
        };
        let (theirs, ours) = (names(&theirs.1), names(&ours.1));
        assert!(
            !ours.is_empty() && ours.iter().all(|name| theirs.contains(name)),
            "{path}: {ours:?} {theirs:?}"
        );
    }
}

/// The texts of a list, in order.
fn listed(answer: &Value) -> Vec<String> {
    let mut texts: Vec<String> =
        answer.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    texts.sort();
    texts
}

/// Checks the deliberate differences that random queries do not show.
fn different_on_purpose(both: &Both, agreed: &mut Differences) {
    let tags = |host: &str| json!({"host": host});
    let point = |metric: &str, value: &str, host: &str| json!({"metric": metric, "timestamp": NOW - 60, "value": value, "tags": tags(host)});
    both.put(&[
        point("cmp.whole", "1", "web-1"),
        point("cmp.whole", "2", "web-2"),
        point("cmp.real", "1.5", "web-1"),
        point("cmp.real", "2.5", "web-2"),
    ]);
    let ask = |sub: Value| {
        let query = json!({"start": NOW - 120, "end": NOW, "queries": [sub]});
        both.ask("POST", "/api/query", &query.to_string())
    };
    let value = |answer: &(u16, Value)| answer.1[0]["dps"][(NOW - 60).to_string()].as_f64();

    let whole = ask(json!({"metric": "cmp.whole", "aggregator": "avg"}));
    assert_eq!(whole.each_ref().map(value), [Some(1.0), Some(1.5)]);
    agreed.seen("opentsdb.whole");

    let filter =
        |text: &str, kind: &str| json!({"type": kind, "tagk": "host", "filter": text, "groupBy": false});
    let anywhere = [filter("e*1", "wildcard")];
    let found = ask(json!({"metric": "cmp.real", "aggregator": "sum", "filters": anywhere}));
    assert_eq!(found.each_ref().map(value), [Some(1.5), None]);
    agreed.seen("opentsdb.wildcard");

    let two = [filter("web-1", "literal_or"), filter("web-2", "literal_or")];
    let found = ask(json!({"metric": "cmp.real", "aggregator": "sum", "filters": two}));
    assert_eq!(found.each_ref().map(value), [Some(4.0), None]);
    agreed.seen("opentsdb.two-filters");

    let [theirs, ours] = ask(json!({"metric": "cmp.none", "aggregator": "sum"}));
    let message = |answer: &(u16, Value)| answer.1["error"]["message"].clone();
    assert_eq!((theirs.0, message(&theirs)), (ours.0, message(&ours)));
    assert!(theirs.1["error"]["trace"].is_string() && ours.1["error"]["trace"].is_null());
    agreed.seen("opentsdb.error-text");

    // The sum is infinite.
    both.put(&[point("cmp.large", "1.7e308", "web-1"), point("cmp.large", "1.7e308", "web-2")]);
    let [theirs, ours] = ask(json!({"metric": "cmp.large", "aggregator": "sum"}));
    assert_eq!(theirs.0, 400, "{}", short(&theirs.1));
    assert_eq!((ours.0, &ours.1[0]["dps"][(NOW - 60).to_string()]), (200, &json!("Infinity")));
    agreed.seen("opentsdb.infinity");
}

fn has_points(answer: &Value) -> bool {
    let results = answer.as_array().into_iter().flatten();
    results.map(|result| &result["dps"]).any(|dps| match dps {
        Value::Object(dps) => !dps.is_empty(),
        Value::Array(dps) => !dps.is_empty(),
        _ => false,
    })
}

/// Describes the difference of two answers; `None` if they are equal.
fn difference(theirs: &(u16, Value), ours: &(u16, Value)) -> Option<String> {
    if theirs.0 != ours.0 {
        return Some(format!("status {} / {}: {} / {}", theirs.0, ours.0, short(&theirs.1), short(&ours.1)));
    }
    if theirs.0 != 200 {
        return None;
    }
    let (a, b) = (results(&theirs.1), results(&ours.1));
    if a.keys().ne(b.keys()) {
        return Some(format!("results {:?} / {:?}", a.keys(), b.keys()));
    }
    a.iter().zip(b.values()).find_map(|((key, a), b)| {
        let times = a.keys().chain(b.keys());
        let wrong = times.into_iter().find(|time| !same(a.get(*time), b.get(*time)))?;
        let (a_value, b_value) = (a.get(wrong), b.get(wrong));
        Some(format!("{key}: at {wrong}: {a_value:?} / {b_value:?} ({} / {} points)", a.len(), b.len()))
    })
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

/// The points of each result, by its tags.
fn results(answer: &Value) -> BTreeMap<String, BTreeMap<String, Value>> {
    let results = answer.as_array().into_iter().flatten();
    let points = |dps: &Value| match dps {
        Value::Object(dps) => dps.clone().into_iter().collect(),
        Value::Array(dps) => dps.iter().map(|pair| (pair[0].to_string(), pair[1].clone())).collect(),
        _ => BTreeMap::new(),
    };
    let key = |result: &Value| {
        let mut differing: Vec<String> =
            result["aggregateTags"].as_array().into_iter().flatten().map(Value::to_string).collect();
        differing.sort();
        format!("{} {} {}", result["metric"], result["tags"], differing.join(","))
    };
    results.map(|result| (key(result), points(&result["dps"]))).collect()
}

fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0),
        _ => a == b,
    }
}
