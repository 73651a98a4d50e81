//! carbonapi as a front end of the daemon. It searches names and fetches points from the daemon over HTTP, in
//! its own protocols, and evaluates functions itself. Its answers must equal those of the daemon.

use std::fmt::Write as _;
use std::net::SocketAddr;

use plumbago_tests::capture::own_address;
use plumbago_tests::child::Guarded;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http::{self, url};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

const NOW: i64 = 1_700_000_000;

const FIND: &[&str] =
    &["*", "app.*", "app.*.*", "app.{h0,h2}.*", "app.h1.load", "app.h1.*.{x,y}", "b?ses.*", "nothing.*"];

const TARGETS: &[&str] = &[
    "app.h1.load",
    "app.*.load",
    "app.{h0,h3}.load",
    "app.*.*.x",
    "nothing.*",
    "alias(app.h2.load,'two')",
    "aliasByNode(app.*.load,1)",
    "sumSeries(app.*.load)",
    "averageSeries(app.*.load)",
    "maxSeries(app.*.load,bases.*)",
    "percentileOfSeries(app.*.load,50)",
    "aggregate(app.*.load,'median')",
    "groupByNode(app.*.load,1,'sum')",
    "divideSeries(app.h1.load,app.h2.load)",
    "asPercent(app.*.load,100)",
    "scale(offset(app.*.load,2),0.5)",
    "keepLastValue(app.h0.load)",
    "transformNull(app.*.load,-1)",
    "integral(app.h3.load)",
    "highestMax(app.*.load,2)",
    "removeAboveValue(app.*.load,10)",
    "movingAverage(bases.one,5)",
    "seriesByTag('name=cpu','dc=a')",
    "aliasByTags(seriesByTag('name=cpu'),'host','dc')",
    "sumSeries(seriesByTag('name=cpu'))",
];

/// Functions that only carbonapi and the daemon have.
const ITS_OWN: &[&str] = &[
    "join(app.*.load,app.{h1,h2}.load)",
    "join(app.*.load,app.h1.load,'SUB')",
    "join(app.{h0,h1}.load,app.{h1,h2}.load,'XOR')",
    "fft(bases.one,'abs')",
    "lowPass(bases.*,30)",
    "ifft(fft(bases.one,'abs'),fft(bases.one,'phase'))",
    "heatMap(app.*.load)",
    "powSeriesLists(app.*.load,app.*.load)",
    "pearsonClosest(bases.one,bases.*,1)",
    "slo(bases.one,'10min','below',4)",
    "slo(bases.one,'7min','below',4)",
    "slo(bases.one,'30s','below',4)",
    "slo(app.*.load,'10min','aboveOrEqual',3)",
    "sloErrorBudget(bases.one,'10min','below',4,0.9)",
    "removeZeroSeries(app.*.*)",
    "polyfit(app.h1.load,2)",
    "polyfit(app.*.load,1,'10min')",
    "tukeyAbove(app.*.load,0.1,2)",
    "tukeyBelow(app.*.load,0.1,2)",
    "integralWithReset(bases.one,bases.two)",
    "scaleAfterTimestamp(app.*.load,2,1699998500)",
    "aliasByBase64(enc.*.x,1)",
    "aliasByBase64(enc.*.x)",
    "timeShiftByMetric(apps.*.errors,apps.mark.*,1)",
    "diff(app.h1.load,app.h2.load)",
    "multiply(app.h1.load,app.h2.load)",
    "max(app.h1.load,app.h2.load)",
    "min(app.*.load)",
    "stddev(app.*.load)",
];

/// Functions for which carbonapi does not align the answer to slots. Only the values are compared.
const ITS_OWN_UNALIGNED: &[&str] = &[
    "kolmogorovSmirnovTest2(bases.one,bases.two,10)",
    "ksTest2(app.h1.load,app.h2.load,7)",
    "pearson(app.h1.load,app.h2.load,10)",
    "pearson(bases.one,bases.two,5)",
];

const TAGS: &[&str] = &[
    "/tags/autoComplete/tags",
    "/tags/autoComplete/tags?expr=name%3Dcpu&tagPrefix=h",
    "/tags/autoComplete/values?tag=dc",
    "/tags/autoComplete/values?tag=host&expr=dc%3Da",
];

#[test]
fn carbonapi_answers_what_it_fetched() {
    let Some(command) = counterpart::carbonapi() else { return };
    let mut setup = Setup::new();
    let daemon = setup.clock(NOW).start();
    daemon.put(&points());
    let program = command.get_program().to_owned();
    let mut wrong = String::new();
    for protocol in ["carbonapi_v3_pb", "carbonapi_v2_pb", "auto"] {
        let front = Front::start(&program, protocol, &setup, &daemon);
        for &query in FIND {
            let path = url("/metrics/find", &[("query", query), ("format", "treejson")]);
            assert_eq!(front.nodes(&path), nodes(daemon.api(), &path), "{protocol} {query}");
        }
        for &target in TARGETS.iter().chain(ITS_OWN).chain(ITS_OWN_UNALIGNED) {
            let (from, until) = ((NOW - 3000).to_string(), (NOW - 30).to_string());
            let times = [("from", &*from), ("until", &*until), ("format", "json"), ("target", target)];
            let path = url("/render", &times);
            let (mut theirs, mut ours) = (front.series(&path), series(daemon.api(), &path));
            if ITS_OWN_UNALIGNED.contains(&target) {
                [&mut theirs, &mut ours].into_iter().flatten().for_each(forget_times);
            }
            assert!(!ours.is_empty() || target.contains("nothing"), "{target}");
            if !alike(&theirs, &ours) {
                let _ = writeln!(wrong, "{protocol} {target}:\n{theirs:?}\n{ours:?}");
            }
        }
        for path in TAGS {
            assert_eq!(json(front.address, path), json(daemon.api(), path), "{protocol} {path}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    daemon.stop_well();
}

/// Series with gaps, without gaps, and with tags: one point per minute for an hour.
fn points() -> Vec<Point> {
    let minutes = || (0..60).map(|minute| (minute, NOW - 3600 + 60 * minute));
    let mut points = Vec::new();
    for host in 0..4i64 {
        for (minute, time) in minutes() {
            let value = (host * 10) as f64 + minute as f64 / 8.0;
            if (minute * 7 + host) % 11 != 0 {
                points.push(Point::new(format!("app.h{host}.load"), time, value));
            }
            let zone = ["a", "b"][host as usize % 2];
            points.push(Point::new(format!("cpu;dc={zone};host=h{host}"), time, value));
        }
        points.push(Point::new(format!("app.h{host}.disk.x"), NOW - 120, 5.0));
    }
    points.push(Point::new("enc.aGVsbG8=.x", NOW - 120, 5.0));
    for (version, since) in [("1_0", 45), ("2_0", 20)] {
        points.push(Point::new(format!("apps.mark.{version}"), NOW - 60 * since, 1.0));
        let errors = (0..since).map(|minute| (minute, NOW - 60 * (since - minute)));
        let point = |(minute, time)| Point::new(format!("apps.{version}.errors"), time, minute as f64);
        points.extend(errors.map(point));
    }
    for (name, period) in [("bases.one", 7), ("bases.two", 12)] {
        points.extend(minutes().map(|(minute, time)| Point::new(name, time, (minute % period) as f64)));
    }
    points
}

/// A running carbonapi.
struct Front {
    address: SocketAddr,
    _process: Guarded,
}

impl Front {
    fn start(program: &std::ffi::OsStr, protocol: &str, setup: &Setup, daemon: &Daemon) -> Self {
        let address = own_address();
        let timeouts = "{find: 60s, render: 60s, connect: 10s}";
        let configuration = setup.file(
            &format!("{protocol}.yaml"),
            &format!(
                "listen: '{address}'\nexpvar: {{enabled: false}}\nconcurency: 10\nnotFoundStatusCode: 200\n\
                 cache: {{type: 'null'}}\nbackendCache: {{type: 'null'}}\ntz: 'UTC,0'\nmaxBatchSize: 100\n\
                 graphite: {{host: ''}}\nlogger: [{{logger: '', file: stderr, level: warn, encoding: console}}]\n\
                 upstreams:\n  tldCacheDisabled: true\n  timeouts: {timeouts}\n  backendsv2:\n    backends:\n    \
                 - {{groupName: daemon, protocol: {protocol}, lbMethod: broadcast, maxTries: 1, \
                 maxBatchSize: 100, timeouts: {timeouts}, servers: ['http://{}']}}\n",
                daemon.api()
            ),
        );
        let mut command = std::process::Command::new(program);
        command.arg("-config").arg(configuration);
        let mut process = Guarded::start(command, &setup.path().join(format!("{protocol}.log")));
        wait_until("carbonapi to listen", || {
            assert!(process.runs(), "it ended: {}", process.output());
            http::try_request(address, "GET", "/lb_check", "", "").is_ok()
        });
        Self { address, _process: process }
    }

    fn nodes(&self, path: &str) -> Vec<Value> {
        nodes(self.address, path)
    }

    fn series(&self, path: &str) -> Vec<Value> {
        series(self.address, path)
    }
}

fn json(address: SocketAddr, path: &str) -> Value {
    let answer = http::get(address, path);
    assert_eq!(answer.status, 200, "{path} of {address}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.body))
}

/// The fields of each node that both answers have, sorted.
fn nodes(address: SocketAddr, path: &str) -> Vec<Value> {
    const FIELDS: [&str; 5] = ["id", "text", "leaf", "expandable", "allowChildren"];
    let answer = json(address, path);
    let node = |node: &Value| FIELDS.map(|field| node[field].clone()).to_vec().into();
    let mut nodes: Vec<Value> = answer.as_array().unwrap().iter().map(node).collect();
    nodes.sort_by_key(Value::to_string);
    nodes
}

/// Names and points, in the order of the answer.
fn series(address: SocketAddr, path: &str) -> Vec<Value> {
    let answer = json(address, path);
    let pair = |series: &Value| vec![series["target"].clone(), series["datapoints"].clone()].into();
    answer.as_array().unwrap().iter().map(pair).collect()
}

/// Removes the times of a series.
fn forget_times(series: &mut Value) {
    for point in series[1].as_array_mut().unwrap() {
        point[1] = Value::Null;
    }
}

/// Compares JSON. Numbers may differ by rounding: by 1e-9 of the larger one, or of 100 if both are smaller.
fn alike(a: &[Value], b: &[Value]) -> bool {
    fn same(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Array(a), Value::Array(b)) => alike(a, b),
            (Value::Number(a), Value::Number(b)) => {
                let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
                (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(100.0)
            }
            (a, b) => a == b,
        }
    }
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}
