//! Compares events, and old pages that clients still request, with the real graphite-web.

use plumbago_tests::answer;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::differences::Differences;
use plumbago_tests::http::{self, url};
use plumbago_tests::oracle::Oracle;
use plumbago_tests::send::Point;
use serde_json::{Value, json};

const NOW: i64 = 1_700_000_100;

/// Bodies of POST requests, valid and invalid.
fn bodies() -> Vec<String> {
    let mut all = vec![
        json!({"what": "deploy", "tags": ["web", "prod"], "when": NOW - 60, "data": "v1"}),
        json!({"what": "restart", "tags": "web db", "when": NOW - 30}),
        json!({"what": "no tags", "when": NOW - 30, "data": "a\nb \"é\""}),
        json!({"what": "old", "tags": [], "when": NOW - 7200}),
        json!({"what": "blanks", "tags": "  db   prod ", "when": NOW as f64 - 55.5}),
        json!({"what": "null tags", "tags": null, "when": 0}),
        json!({"what": "", "tags": ["empty"], "when": NOW - 40}),
        json!({"what": "same second", "tags": ["prod"], "when": NOW - 60}),
        json!({"what": "bad tags", "tags": 5, "when": NOW}),
        json!({"what": "bad tags", "tags": {"a": 1}, "when": NOW}),
        json!({"what": "bad tags", "tags": [1], "when": NOW}),
        json!({"what": "bad time", "when": "now"}),
        json!({"what": "bad time", "when": null}),
        json!({"tags": ["nameless"], "when": NOW}),
        json!([1, 2]),
    ]
    .iter()
    .map(Value::to_string)
    .collect::<Vec<_>>();
    all.extend(["".to_owned(), "{".to_owned(), "what=x".to_owned()]);
    all
}

#[test]
fn events_are_graphites() {
    let Some(oracle) = Oracle::start() else { return };
    let mut setup = Setup::new();
    setup.clock(NOW);
    let mut both = Both {
        daemon: setup.start(),
        oracle,
        agreed: Differences::listed("events."),
        complaints: Vec::new(),
    };
    for body in bodies() {
        both.post(&body);
    }
    both.questions();
    both.pages();
    both.functions();
    // Events survive a kill of the process, and ids continue.
    both.daemon.kill();
    both.daemon = setup.start();
    both.questions();
    both.post(&json!({"what": "after", "when": NOW - 10, "tags": ["web"]}).to_string());
    both.questions();
    assert!(both.complaints.is_empty(), "{}", both.complaints.join("\n"));
    both.agreed.assert_all_seen();
    both.daemon.stop_well();
}

struct Both {
    daemon: Daemon,
    oracle: Oracle,
    agreed: Differences,
    complaints: Vec<String>,
}

impl Both {
    fn post(&mut self, body: &str) {
        let theirs = self.oracle.post(NOW, "/events/", body);
        let ours = http::request(self.daemon.api(), "POST", "/events/", "", body);
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        let same = theirs.status == ours.status && read(&theirs.body) == read(&ours.body);
        if theirs.status == 500 && ours.status == 400 {
            self.agreed.seen("events.no-500");
        } else if !same {
            self.complain(body, &theirs.body, &ours.body);
        }
    }

    fn questions(&mut self) {
        let (from, until, now) = ((NOW - 60).to_string(), (NOW - 30).to_string(), NOW.to_string());
        let ranges: [&[(&str, &str)]; 5] = [
            &[("until", &now)],
            &[("from", &from), ("until", &until)],
            &[("from", &until), ("until", &now)],
            &[("from", &until), ("until", &from)],
            &[("from", "0"), ("until", "0")],
        ];
        let tags: [&[(&str, &str)]; 9] = [
            &[],
            &[("tags", "web")],
            &[("tags", "web prod")],
            &[("tags", "web prod"), ("set", "union")],
            &[("tags", "web prod"), ("set", "intersection")],
            &[("tags", "nobody"), ("set", "intersection")],
            &[("tags", "nobody web"), ("set", "union")],
            &[("tags", "nobody")],
            &[("tags", "")],
        ];
        for range in ranges {
            for tags in tags {
                let path = url("/events/get_data", &[range, tags].concat());
                let theirs = self.oracle.get(NOW, &path).body;
                self.compare(&path, &theirs);
            }
        }
        let path = format!("/events/get_data?until={NOW}&jsonp=f");
        let (theirs, ours) = (self.oracle.get(NOW, &path), http::get(self.daemon.api(), &path));
        assert_eq!(theirs.content_type, "text/javascript");
        assert_eq!(ours.header("content-type"), Some("text/javascript"));
        assert_eq!(inside(&theirs.body), inside(&ours.body));
        // graphite-web ignores a tag that no event has ever had.
        let path = format!("/events/get_data?until={NOW}&tags=web%20nobody");
        assert_ne!(self.oracle.get(NOW, &path).body, "[]");
        assert_eq!(http::get(self.daemon.api(), &path).body, "[]");
        self.agreed.seen("events.unknown-tag");
    }

    fn pages(&mut self) {
        for path in ["/events/1", "/events/3/", "/events/7", "/events/99"] {
            let theirs = self.oracle.get_accepting(NOW, path, "application/json");
            self.compare(path, &theirs.body);
            assert_eq!(http::get(self.daemon.api(), path).status, theirs.status, "{path}");
        }
        for path in [
            "/dashboard/find?query=",
            "/dashboard/find/?query=web",
            "/dashboard/find_template",
            "/dashboard/load/web",
            "/dashboard/load/a%20b",
            "/dashboard/load_template/a/b",
        ] {
            let with_query = if path.contains('?') { path.to_owned() } else { format!("{path}?query=") };
            let theirs = self.oracle.get(NOW, &with_query).body;
            self.compare(&with_query, &theirs);
        }
    }

    fn functions(&mut self) {
        for target in ["events('*')", "events('web')", "events('web','prod')", "events('nobody')"] {
            for from in [NOW - 90, NOW - 45] {
                let (from, until) = (from.to_string(), (NOW - 20).to_string());
                let asked = [("target", target), ("from", &from), ("until", &until), ("format", "raw")];
                let path = url("/render", &asked);
                let theirs = self.oracle.get(NOW, &path).body;
                let ours = http::get(self.daemon.api(), &path).body;
                assert_eq!(answer::raw(&ours), answer::raw(&theirs), "{path}");
                assert!(ours.contains('1') || target.contains("nobody"));
            }
        }
    }

    fn compare(&mut self, path: &str, theirs: &str) {
        let ours = http::get(self.daemon.api(), path);
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        if read(theirs).is_none() || read(theirs) != read(&ours.body) {
            self.complain(path, theirs, &ours.body);
        }
    }

    fn complain(&mut self, what: &str, theirs: &str, ours: &str) {
        let short = answer::short;
        self.complaints.push(format!("{what}\n  graphite: {}\n  plumbago: {}", short(theirs), short(ours)));
    }
}

/// The argument of `f(…)`.
fn inside(text: &str) -> Value {
    let text = text.strip_prefix("f(").and_then(|t| t.strip_suffix(')'));
    serde_json::from_str(text.expect("a call")).expect("JSON in it")
}

#[test]
fn metrics_say_how_they_are_kept() {
    let mut setup = Setup::new();
    setup
        .schemas("[all]\npattern = .*\nretentions = 60s:1d,5m:30d\n")
        .aggregation("[sum]\npattern = \\.count$\naggregationMethod = sum\nxFilesFactor = 0\n")
        .clock(NOW);
    let daemon = setup.start();
    daemon.put(&[Point::new("web.count", NOW, 1.0), Point::new("web.load", NOW, 1.0)]);
    daemon.wait_names(2);
    let info = |target: &str| http::get(daemon.api(), &url("/info", &[("target", target)]));
    let retentions = json!([
        {"secondsPerPoint": 60, "numberOfPoints": 1440}, {"secondsPerPoint": 300, "numberOfPoints": 8640},
    ]);
    plumbago_tests::wait::wait_until("the metric to be stored", || info("web.count").status == 200);
    let count = json!({"metrics": [{
        "name": "web.count", "consolidationFunc": "Sum", "maxRetention": 30 * 86_400, "xFilesFactor": 0.0,
        "retentions": retentions,
    }]});
    assert_eq!(serde_json::from_str::<Value>(&info("web.count").body).unwrap(), count);
    let load = serde_json::from_str::<Value>(&info("web.load").body).unwrap();
    assert_eq!(load["metrics"][0]["consolidationFunc"], "Average");
    assert_eq!(load["metrics"][0]["xFilesFactor"], 0.5);
    assert_eq!(info("web.none").status, 404);
    daemon.stop_well();
}
