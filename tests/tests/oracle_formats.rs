//! The formats of `/render` and `/metrics/find` that no other test compares with the real graphite-web:
//! MessagePack, pickle, Dygraphs, Rickshaw.

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::differences::Differences;
use plumbago_tests::http::{Response, url};
use plumbago_tests::oracle::{Kept, Oracle};
use plumbago_tests::send::Point;
use serde_json::Value;

const NOW: i64 = 1_700_000_100;
const MINUTE: i64 = 60;

/// Series of one-minute steps with and without gaps, one without points, and one with another step.
const METRICS: [(&str, i64); 5] =
    [("a.dense", MINUTE), ("a.gaps", MINUTE), ("a.none", MINUTE), ("a.b.é", MINUTE), ("slow.x", 300)];

const TARGETS: [&[&str]; 9] = [
    &["a.dense"],
    &["a.*"],
    &["a.none"],
    &["a.*", "a.b.*"],
    &["slow.x"],
    &["sumSeries(a.*)", "scale(a.gaps,0.1)"],
    &["alias(a.dense,'a \"quoted\" é name')"],
    &["nothing.*"],
    &[],
];

#[test]
fn other_formats_are_graphites() {
    let Some(mut oracle) = Oracle::start() else { return };
    let mut setup = Setup::new();
    setup
        .schemas("[slow]\npattern = ^slow\nretentions = 300s:1d\n[all]\npattern = .*\nretentions = 60s:1d\n")
        .clock(NOW);
    let daemon = setup.start();
    let kept = METRICS.map(|(name, step)| Kept {
        name: name.to_owned(),
        stages: vec![(step, 86_400 / step)],
        factor: 0.5,
        method: "average".to_owned(),
    });
    oracle.create(&kept);
    let points = points();
    oracle.update(NOW, &points);
    daemon.put(&points);
    daemon.wait_names(METRICS.len());

    let mut both = Both { daemon, oracle, agreed: Differences::listed("formats.") };
    for targets in TARGETS {
        for format in ["msgpack", "pickle", "dygraph", "rickshaw"] {
            both.render(targets, format, "");
        }
        both.render(targets, "dygraph", "f");
        both.render(targets, "rickshaw", "f");
    }
    for query in ["*", "a.*", "a.b.é", "nothing"] {
        both.find(query);
    }
    both.steps();
    both.agreed.assert_all_seen();
    both.daemon.stop_well();
}

/// Points of the last twenty minutes. The metric without points has an older point.
fn points() -> Vec<Point> {
    let mut points = vec![Point::new("a.none", NOW - 7200, 1.0)];
    for (name, step) in METRICS {
        for index in 0..20 * MINUTE / step {
            let is_gap = name == "a.gaps" && index % 3 == 1;
            if name != "a.none" && !is_gap {
                points.push(Point::new(name, NOW - index * step, index as f64 / 7.0 - 1.0));
            }
        }
    }
    points
}

struct Both {
    daemon: Daemon,
    oracle: Oracle,
    agreed: Differences,
}

impl Both {
    fn render(&mut self, targets: &[&str], format: &str, jsonp: &str) {
        let (from, now) = ((NOW - 900).to_string(), NOW.to_string());
        let mut parameters = vec![("format", format), ("from", &*from), ("until", &*now), ("now", &*now)];
        parameters.extend(targets.iter().map(|target| ("target", *target)));
        if !jsonp.is_empty() {
            parameters.push(("jsonp", jsonp));
        }
        let path = url("/render", &parameters);
        let (ours, theirs) = self.both(&path);
        assert_eq!(ours, theirs, "{path}");
    }

    fn find(&mut self, query: &str) {
        let now = NOW.to_string();
        let (ours, theirs) =
            self.both(&url("/metrics/find", &[("format", "msgpack"), ("query", query), ("now", &now)]));
        // The daemon adds carbonapi's spelling of this field, and the interval of a file cannot be compared.
        let bare = |nodes: &Value, also: bool| -> Vec<(Value, Value)> {
            let nodes = nodes.as_array().unwrap().iter();
            nodes
                .map(|node| {
                    assert!(!also || node["is_leaf"] == node["isLeaf"], "{node}");
                    assert_eq!(node["is_leaf"] == true, node["intervals"][0][1].is_number(), "{node}");
                    (node["path"].clone(), node["is_leaf"].clone())
                })
                .collect()
        };
        assert_eq!(bare(&ours, true), bare(&theirs, false), "{query}");
    }

    /// Compares tables of series with different steps.
    fn steps(&mut self) {
        let path = format!(
            "/render?format=dygraph&target=a.dense&target=slow.x&now={NOW}&from={}&until={NOW}",
            NOW - 900
        );
        assert_eq!(self.oracle.get(NOW, &path).status, 500);
        let ours: Value = serde_json::from_str(&self.daemon.get(&path).body).unwrap();
        assert_eq!(ours["data"].as_array().unwrap().len(), 15);
        assert!(ours["data"].as_array().unwrap().iter().all(|row| row.as_array().unwrap().len() == 3));
        self.agreed.seen("formats.dygraph-steps");
    }

    /// Both answers, decoded. Their status and content type must be equal.
    fn both(&mut self, path: &str) -> (Value, Value) {
        let ours = self.daemon.get(path);
        let theirs = self.oracle.get(NOW, path);
        let our_type = ours.header("content-type").unwrap_or("").split(';').next().unwrap_or("").to_owned();
        let their_type = theirs.content_type.split(';').next().unwrap_or("").to_owned();
        assert_eq!((ours.status, &our_type), (theirs.status, &their_type), "{path}: {}", theirs.body);
        (self.decoded(&our_type, &ours), called(&theirs.body))
    }

    fn decoded(&mut self, kind: &str, response: &Response) -> Value {
        match kind {
            "application/x-msgpack" | "application/pickle" => self.oracle.decode(kind, &response.bytes),
            _ => called(&response.body),
        }
    }
}

/// Parses JSON, or a function call with JSON as its argument.
fn called(text: &str) -> Value {
    let inner = text.strip_prefix("f(").and_then(|rest| rest.strip_suffix(')'));
    let value = serde_json::from_str(inner.unwrap_or(text)).unwrap_or_else(|error| panic!("{error}: {text}"));
    if inner.is_some() { Value::Array(vec![value]) } else { value }
}
