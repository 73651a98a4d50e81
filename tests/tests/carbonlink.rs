//! Carbonlink with graphite-web's own client. The replies are compared with those of carbon's own handler. Also tests
//! graphite-web's calls that read and change the aggregation methods of metrics.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use plumbago_cassandra_node::server;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::json_lines::JsonLines;
use plumbago_tests::send::{Point, frame};
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A moment at which both a minute and a window of five minutes begin.
const T0: i64 = 1_700_000_100;
const NOW: i64 = T0 + 290;
const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 60s:1d,300s:7d\n";

/// graphite-web's client and carbon's handler.
struct Graphite {
    process: JsonLines,
    _directory: TempDir,
}

impl Graphite {
    fn start(daemon: &Daemon) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("plumbago-carbonlink-").tempdir().unwrap();
        std::fs::create_dir(directory.path().join("whisper")).unwrap();
        let mut command = Command::new(counterpart::python()?);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/carbonlink.py"));
        command.env("GRAPHITE_STORAGE_DIR", directory.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        let process = JsonLines::start(command, &directory.path().join("carbonlink.log"));
        let mut graphite = Self { process, _directory: directory };
        graphite.connect(daemon);
        Some(graphite)
    }

    fn connect(&mut self, daemon: &Daemon) {
        let host = daemon.address("carbonlink").to_string();
        self.process.ask(&json!({"cmd": "connect", "host": host}));
    }

    /// The points that the client gets for each metric.
    fn query(&mut self, metrics: &[&str]) -> BTreeMap<String, Vec<(i64, f64)>> {
        let found = self.process.ask(&json!({"cmd": "query", "metrics": metrics}));
        serde_json::from_value(found["points"].clone()).unwrap()
    }

    fn get(&mut self, metric: &str, key: &str) -> Value {
        self.process.ask(&json!({"cmd": "get", "metric": metric, "key": key}))
    }

    fn set(&mut self, metric: &str, key: &str, value: &str) -> Value {
        self.process.ask(&json!({"cmd": "set", "metric": metric, "key": key, "value": value}))
    }

    /// The daemon's reply to a request in this version of the pickle protocol.
    fn ask(&mut self, request: &Value, protocol: u8) -> Value {
        self.process.ask(&json!({"cmd": "ask", "request": request, "protocol": protocol}))["reply"].take()
    }

    /// Carbon's reply to a request while these points are in its cache.
    fn of_carbon(&mut self, points: &[Point], request: &Value, protocol: u8) -> Value {
        let points: Vec<Value> = points.iter().map(|p| json!([p.name, p.timestamp, p.value])).collect();
        let question = json!({"cmd": "carbon", "points": points, "request": request, "protocol": protocol});
        self.process.ask(&question)["reply"].take()
    }
}

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.schemas(SCHEMAS).clock(NOW).set("carbonlink.listen", "127.0.0.1:0");
    setup
}

/// Points of several metrics, sent in this order.
fn points(metrics: usize) -> Vec<Point> {
    let of = |m: usize| {
        let name = if m.is_multiple_of(10) { format!("tagged;m={m}") } else { format!("many.m{m}.value") };
        (0..5).map(move |slot| Point::new(name.clone(), T0 + 60 * slot, m as f64 + slot as f64 / 8.0))
    };
    let mut all: Vec<Point> = (0..metrics).flat_map(of).collect();
    // The last point of a slot replaces the earlier ones.
    all.push(Point::new("many.m1.value", T0 + 60, -1.0));
    all
}

fn by_metric(points: &[Point]) -> BTreeMap<String, Vec<(i64, f64)>> {
    let mut slots: BTreeMap<String, BTreeMap<i64, f64>> = BTreeMap::new();
    for point in points {
        slots.entry(point.name.clone()).or_default().insert(point.timestamp, point.value);
    }
    slots.into_iter().map(|(name, slots)| (name, slots.into_iter().collect())).collect()
}

/// Converts whole numbers with a decimal point to integers, which Python considers equal: carbon's times have
/// a decimal point.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), normal(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn names(points: &BTreeMap<String, Vec<(i64, f64)>>) -> Vec<&str> {
    points.keys().map(String::as_str).collect()
}

#[test]
fn points_that_are_not_stored_are_answered_as_carbon_does() {
    let setup = setup();
    let daemon = setup.start();
    let Some(mut graphite) = Graphite::start(&daemon) else { return };
    let sent = points(300);
    daemon.put(&sent);
    let expected = by_metric(&sent);
    assert_eq!(graphite.query(&names(&expected)), expected);
    assert_eq!(graphite.query(&["none", "many"]).values().map(Vec::len).sum::<usize>(), 0);
    // A name that is not in canonical form, and a name of carbon's own metrics, which the client requests
    // from every server.
    daemon.put(&[Point::new("carbon.agents.a", T0, 1.0), Point::new("carbon.agents.a", T0 + 60, 2.0)]);
    let odd = graphite.query(&[".many..m1.value", "carbon.agents.a", "tag;b=2;a=1"]);
    assert_eq!(odd[".many..m1.value"], expected["many.m1.value"]);
    assert_eq!(odd["carbon.agents.a"], [(T0, 1.0), (T0 + 60, 2.0)]);

    let all = names(&expected);
    for protocol in 0..=5 {
        for request in [
            json!({"type": "cache-query", "metric": "many.m1.value"}),
            json!({"type": "cache-query", "metric": "tagged;m=0"}),
            json!({"type": "cache-query", "metric": "m\u{fc}nchen"}),
            json!({"type": "cache-query-bulk", "metrics": all}),
            json!({"type": "cache-query-bulk", "metrics": ["none", "many.m2.value", "none"]}),
            json!({"type": "cache-query-bulk", "metrics": []}),
            json!({"type": "hello", "metric": "many.m1.value"}),
        ] {
            let (ours, carbons) =
                (graphite.ask(&request, protocol), graphite.of_carbon(&sent, &request, protocol));
            assert_eq!(normal(&ours), normal(&carbons), "{protocol} {request:.100}");
        }
    }

    // Points that are stored are no longer in the answer; newer points are.
    daemon.flush();
    assert!(graphite.query(&all).values().all(Vec::is_empty));
    daemon.put(&[Point::new("many.m1.value", T0 + 300, 9.0)]);
    assert_eq!(graphite.query(&["many.m1.value"])["many.m1.value"], [(T0 + 300, 9.0)]);
    let counters = daemon.counters();
    assert!(counters.sum("plumbago_carbonlink_requests_total") > 300);
    assert_eq!(counters.sum("plumbago_carbonlink_refused_total"), 6, "the unknown requests");
    daemon.stop_well();
}

/// Queries are counted under the names that carbon uses for them.
#[test]
fn queries_have_a_history_under_carbons_names() {
    let mut setup = setup();
    setup.set("self_metrics.interval", "1s");
    let daemon = setup.start();
    let Some(mut graphite) = Graphite::start(&daemon) else { return };
    let bulk = json!({"type": "cache-query-bulk", "metrics": ["none", "many.m2.value"]});
    let last = |name: &str| {
        let series = daemon.render(&format!("carbon.agents.*.cache.{name}"), NOW - 600, NOW, NOW);
        series.first().and_then(|series| series.known().into_values().next_back()).unwrap_or(0.0)
    };
    // The clock does not move, so the numbers of each interval replace those of the previous interval.
    wait_until("both kinds of queries", || {
        graphite.query(&["none"]);
        graphite.ask(&bulk, 2);
        last("queries") > 0.0 && last("bulk_queries") > 0.0 && last("bulk_queries_average_size") == 2.0
    });
    daemon.stop_well();
}

/// graphite-web reads whisper files itself and merges the points of the daemon.
#[test]
fn graphite_web_merges_the_points_into_what_it_has_read() {
    let setup = setup();
    let daemon = setup.start();
    let Some(mut graphite) = Graphite::start(&daemon) else { return };
    daemon.put(&[Point::new("on.both", T0 + 120, 20.0), Point::new("on.both", T0 + 180, 21.0)]);
    let file = json!({
        "cmd": "whisper", "metric": "on.both", "stages": [[60, 1440], [300, 2016]], "method": "average",
        "now": NOW, "from": T0 - 60, "points": [[T0, 1.0], [T0 + 60, 2.0], [T0 + 120, 3.0]],
    });
    let points = graphite.process.ask(&file)["points"].take();
    assert_eq!(
        normal(&points),
        normal(&json!([[T0, 1.0], [T0 + 60, 2.0], [T0 + 120, 20.0], [T0 + 180, 21.0]]))
    );
    daemon.stop_well();
}

/// The window of five minutes from [`T0`] on.
fn window(daemon: &Daemon, metric: &str, now: i64) -> f64 {
    let series = daemon.render(metric, now - 2 * 86_400, now, now);
    series[0].known()[&T0]
}

#[test]
fn an_aggregation_method_is_read_and_changed() {
    let mut setup = setup();
    setup.set("api.metadata_writes", "true");
    let daemon = setup.start();
    let Some(mut graphite) = Graphite::start(&daemon) else { return };
    let slots = |metric: &str, count: i64| -> Vec<Point> {
        (0..count).map(|slot| Point::new(metric, T0 + 60 * slot, (slot + 1) as f64)).collect()
    };
    for metric in ["m.old", "m.open", "m.kept", "t;a=1"] {
        daemon.put(&slots(metric, 3));
    }
    // Names with tags are not in the list.
    daemon.wait_names(3);
    assert_eq!(graphite.get("m.old", "aggregationMethod"), json!({"value": "average"}));
    assert_eq!(graphite.get("t;a=1", "aggregationMethod"), json!({"value": "average"}));
    assert_eq!(window(&daemon, "m.old", NOW), 2.0);

    // One window that is stored, and one that is still open.
    daemon.flush();
    let changed = json!({"value": {"old_value": "average", "new_value": "sum"}});
    for metric in ["m.old", "m.open", "t;a=1"] {
        assert_eq!(graphite.set(metric, "aggregationMethod", "sum"), changed, "{metric}");
        assert_eq!(graphite.get(metric, "aggregationMethod"), json!({"value": "sum"}));
    }
    assert_eq!(window(&daemon, "m.old", NOW), 6.0);
    daemon.put(&[Point::new("m.open", T0 + 180, 10.0)]);
    assert_eq!(window(&daemon, "m.open", NOW), 16.0);
    let again = json!({"value": {"old_value": "sum", "new_value": "sum"}});
    assert_eq!(graphite.set("m.old", "aggregationMethod", "sum"), again);

    // Errors have the same form as carbon's: they contain the reason, and the connection stays open.
    let carbons = |graphite: &mut Graphite, request: &Value| {
        graphite.of_carbon(&[], request, 2)["error"].as_str().unwrap().to_owned()
    };
    let create = json!({"cmd": "whisper", "metric": "m.old", "stages": [[60, 1440]], "method": "sum",
        "now": NOW, "from": T0, "points": []});
    graphite.process.ask(&create);
    for (metric, key, value, ours, theirs) in [
        ("m.old", "xff", "0", "Unsupported metadata key \"xff\"", "Unsupported metadata key \"xff\""),
        (
            "m.old",
            "aggregationMethod",
            "mode",
            "Unrecognized aggregation method: mode",
            "Unrecognized aggregation method: mode",
        ),
        ("none", "aggregationMethod", "sum", "there is no metric \"none\"", "No such file"),
    ] {
        let request = json!({"type": "set-metadata", "metric": metric, "key": key, "value": value});
        let raised = graphite.set(metric, key, value)["raised"].as_str().unwrap().to_owned();
        assert!(raised.contains(ours), "{raised}");
        let of_carbon = carbons(&mut graphite, &request);
        assert!(of_carbon.contains(theirs), "{of_carbon}");
    }
    let wrong = graphite.set("m.kept", "aggregationMethod", "max")["raised"].as_str().unwrap().to_owned();
    assert!(wrong.contains("cannot change from average to max"), "{wrong}");
    assert_eq!(window(&daemon, "m.kept", NOW), 2.0);
    assert!(graphite.get("m.kept", "xff")["raised"].as_str().unwrap().contains("Unsupported metadata key"));

    // The same calls work over HTTP.
    let found =
        daemon.get("/metrics/get-metadata?metric=m.old&metric=m.kept&metric=none&key=aggregationMethod");
    let expected =
        json!({"m.old": "sum", "m.kept": "average", "none": {"error": "there is no metric \"none\""}});
    assert_eq!(serde_json::from_str::<Value>(&found.body).unwrap(), expected);
    let path = "/metrics/set-metadata?metric=m.kept&key=aggregationMethod&value=avg_zero";
    let changed = json!({"m.kept": {"old_value": "average", "new_value": "avg_zero"}});
    assert_eq!(serde_json::from_str::<Value>(&daemon.get(path).body).unwrap(), changed);
    assert_eq!(window(&daemon, "m.kept", NOW), 6.0 / 5.0);

    // The change survives a crash.
    daemon.kill();
    let daemon = setup.start();
    graphite.connect(&daemon);
    assert_eq!(graphite.get("m.open", "aggregationMethod"), json!({"value": "sum"}));
    assert_eq!((window(&daemon, "m.old", NOW), window(&daemon, "m.open", NOW)), (6.0, 16.0));
    daemon.put(&[Point::new("m.open", T0 + 240, 10.0)]);
    daemon.set_clock(NOW + 7200);
    daemon.put(&[Point::new("m.open", T0 + 7200, 1.0)]);
    daemon.flush();
    assert_eq!(window(&daemon, "m.open", NOW + 7200), 26.0);
    daemon.stop_well();
}

#[test]
fn hostile_requests_harm_nobody() {
    let setup = setup();
    let daemon = setup.start();
    let Some(mut graphite) = Graphite::start(&daemon) else { return };
    let sent = points(20);
    daemon.put(&sent);
    let expected = by_metric(&sent);
    let before = daemon.memory("VmRSS");
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(daemon.address("carbonlink")).unwrap();
        let _ = stream.write_all(bytes);
        stream
    };
    let repeated = |start: &str, text: &str, times: usize, end: &str| {
        [start, &text.repeat(times), end].concat().into_bytes()
    };
    let bulk = |list: Vec<u8>| [b"(U\x04typeU\x10cache-query-bulkU\x07metrics", &list[..], b"d."].concat();
    let long = [&b"X\x00\x00\x04\x00"[..], &[b'n'; 1 << 18], b"q\x00"].concat();
    let frames = [
        repeated("]", "2a", 200, "."),
        repeated("", "]", 300_000, "."),
        repeated("", "}", 1_000_000, "."),
        repeated("", "(", 900_000, "."),
        repeated("}(", "NN", 400_000, "u."),
        b"cos\nsystem\n(S'true'\ntR.".to_vec(),
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.".to_vec(),
        b"".to_vec(),
        b"].".to_vec(),
        bulk([b"(", &long[..], &b"h\x00".repeat(300_000), b"l"].concat()),
        bulk(repeated("(", "(U\x01al", 100_000, "l")),
        bulk(
            [
                b"(".to_vec(),
                (0..50_000).flat_map(|n| format!("Vmetric{n}\n").into_bytes()).collect(),
                b"l".to_vec(),
            ]
            .concat(),
        ),
    ];
    let listed: Vec<u8> = expected.keys().flat_map(|name| format!("V{name}\n").into_bytes()).collect();
    let all = bulk([b"(", &listed[..], b"l"].concat());
    let mut slow = Vec::new();
    for round in 0..5 {
        for bytes in &frames {
            let mut stream = send(&frame(bytes));
            // The daemon closes the connection, with or without a reply.
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
        for bytes in [&b"\xff\xff\xff\xff"[..], b"GET / HTTP/1.1\r\n\r\n", b"\x00\x10"] {
            let _ = send(bytes).shutdown(std::net::Shutdown::Write);
        }
        // Slow senders, which announce a large frame and send no more.
        slow.extend((0..20).map(|_| send(b"\x00\x10\x00\x00(U\x04type")));
        // A client that never reads answers: at some point the daemon can write no more, and then reads no
        // further request.
        let mut reader = TcpStream::connect(daemon.address("carbonlink")).unwrap();
        reader.set_write_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        let _ = reader.write_all(&frame(&all).repeat(20_000));
        slow.push(reader);
        assert_eq!(graphite.query(&names(&expected)), expected, "round {round}");
        assert_eq!(http::get(daemon.admin(), "/readyz").status, 200);
    }
    let refused = |reason: &str| {
        daemon.counters().with("plumbago_carbonlink_refused_total", &format!("reason=\"{reason}\""))
    };
    for reason in ["frame", "frame_too_large", "half_frame", "request", "metrics"] {
        wait_until(reason, || refused(reason) > 0);
    }
    let peak = daemon.memory("VmHWM");
    assert!(peak < before + (200 << 20), "{peak} bytes of memory, {before} before");
    let log = daemon.log();
    assert!(!log.contains("panicked") && log.lines().count() < 200, "{log}");
    drop(slow);
    daemon.stop_well();
}

fn on_cassandra(keyspace: &str) -> Option<Setup> {
    let server = server::for_tests()?;
    server.drop_keyspaces(keyspace).unwrap();
    let mut setup = setup();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "4").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.request_timeout", "60s").set("engine.flush_interval", "1h");
    let ended = setup.run(&["syncdb"]);
    assert!(ended.status.success(), "{}", ended.output);
    Some(setup)
}

#[test]
fn on_cassandra_rows_that_are_not_sent_are_answered() {
    let Some(mut setup) = on_cassandra("carbonlink") else { return };
    // Rows stay in the spool after a flush.
    let daemon = setup.set("spool.linger", "1h").start();
    let Some(mut graphite) = Graphite::start(&daemon) else { return };
    let mut sent = points(40);
    daemon.put(&sent);
    // Four of the names have tags and are not in the list.
    daemon.wait_names(36);
    let check = |graphite: &mut Graphite, sent: &[Point], what: &str| {
        let expected = by_metric(sent);
        assert_eq!(graphite.query(&names(&expected)), expected, "{what}");
        let bulk = graphite.ask(&json!({"type": "cache-query-bulk", "metrics": names(&expected)}), 4);
        let points: BTreeMap<String, Vec<(i64, f64)>> =
            serde_json::from_value(bulk["datapointsByMetric"].clone()).unwrap();
        assert_eq!(points, expected, "{what}");
    };
    check(&mut graphite, &sent, "in heads");
    daemon.flush();
    assert!(daemon.counters().sum("plumbago_spool_pending_rows") >= 200, "rows wait in the spool");
    check(&mut graphite, &sent, "in the spool");
    let more = [Point::new("many.m1.value", T0 + 60, 7.0), Point::new("many.m2.value", T0 + 300, 8.0)];
    daemon.put(&more);
    sent.extend(more);
    check(&mut graphite, &sent, "in both");

    // Another daemon learns of a changed method while it runs.
    let changed = json!({"value": {"old_value": "average", "new_value": "sum"}});
    let (own, other) = (setup.data(), setup.path().join("other"));
    let second = setup.set("data_dir", other.to_str().unwrap()).start();
    setup.set("data_dir", own.to_str().unwrap());
    second.wait_names(36);
    assert_eq!(graphite.set("many.m1.value", "aggregationMethod", "sum"), changed);
    second.put(&(0..4).map(|slot| Point::new("many.m1.value", T0 + 60 * slot, 1.0)).collect::<Vec<_>>());
    wait_until("the other daemon to use the method", || window(&second, "many.m1.value", NOW) == 4.0);
    for daemon in [daemon, second] {
        daemon.stop_well();
    }
    let daemon = setup.start();
    graphite.connect(&daemon);
    assert_eq!(graphite.get("many.m1.value", "aggregationMethod"), json!({"value": "sum"}));
    daemon.stop_well();
}
