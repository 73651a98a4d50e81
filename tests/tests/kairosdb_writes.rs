//! Points by KairosDB's and OpenTSDB's requests, from the socket to the graph.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http::{self, Response};
use plumbago_tests::rounds::number;
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

const NOW: i64 = 1_700_000_000;
const DATAPOINTS: &str = "/api/v1/datapoints";

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1h,60s:1d\n").clock(NOW);
    setup.set("api.point_writes", "true");
    setup
}

fn post(daemon: &Daemon, path: &str, body: &str) -> Response {
    http::request(daemon.api(), "POST", path, "Content-Type: application/json\r\n", body)
}

fn points(daemon: &Daemon, name: &str) -> Vec<(i64, f64)> {
    daemon.wait_points(name, NOW - 100, NOW)
}

#[test]
fn writes_are_off_until_they_are_switched_on() {
    let mut setup = setup();
    setup.unset("api.point_writes");
    let daemon = setup.start();
    let body = r#"{"name":"m","tags":{"h":"a"},"datapoints":[[1700000000000,1]]}"#;
    let answer = post(&daemon, DATAPOINTS, body);
    assert_eq!(answer.status, 403);
    let errors: Value = serde_json::from_str(&answer.body).unwrap();
    assert!(errors["errors"][0].as_str().unwrap().contains("api.point_writes"), "{errors}");
    let answer = post(&daemon, "/api/put", "[]");
    assert_eq!(answer.status, 403);
    let error: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(error["error"]["code"], 403);
    assert_eq!(daemon.ledger().received, 0);
}

#[test]
fn datapoints_reach_the_graph() {
    let setup = setup();
    let daemon = setup.start();
    let body = json!([
        {"name": "temperature", "tags": {"city": "Antalya", "a b": "c;d"}, "ttl": 60,
         "datapoints": [[(NOW - 2) * 1000 + 5, 33], [(NOW - 1) * 1000, "34.5"]]},
        {"name": "humidity", "tags": {"city": "Antalya"}, "timestamp": NOW * 1000, "value": 60},
    ]);
    let answer = post(&daemon, &format!("{DATAPOINTS}/"), &body.to_string());
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    assert_eq!(points(&daemon, "temperature;a%20b=c%3Bd;city=Antalya"), [(NOW - 2, 33.0), (NOW - 1, 34.5)]);
    assert_eq!(points(&daemon, "seriesByTag('city=Antalya','name=humidity')"), [(NOW, 60.0)]);
    let ledger = daemon.ledger_at(3);
    assert_eq!((ledger.received, ledger.rejected), (3, 0));
    let counters = daemon.counters();
    assert_eq!(counters.sum("plumbago_ingest_cut_milliseconds_total"), 1);
    assert_eq!(counters.sum("plumbago_ingest_ignored_ttl_total"), 2);
    daemon.stop_well();
}

#[test]
fn good_points_of_a_bad_request_are_kept() {
    let setup = setup();
    let daemon = setup.start();
    let one = |name: &str, value: Value| json!({"name": name, "tags": {"h": "a"}, "datapoints": [[NOW * 1000, value]]});
    let body =
        json!([one("a", json!(1)), one("b", json!("text")), one("c", json!(3)), one("d", Value::Null)]);
    let answer = post(&daemon, DATAPOINTS, &body.to_string());
    assert_eq!(answer.status, 400);
    let errors: Value = serde_json::from_str(&answer.body).unwrap();
    let errors = errors["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].as_str().unwrap().starts_with("metric[1](name=b).datapoints[0].value"), "{errors:?}");
    assert_eq!((points(&daemon, "a;h=a"), points(&daemon, "c;h=a")), (vec![(NOW, 1.0)], vec![(NOW, 3.0)]));
    let ledger = daemon.ledger_at(4);
    assert_eq!((ledger.received, ledger.rejected), (4, 2));
    for (body, status) in [("", 400), ("null", 400), ("[{\"name\":\"e\"", 400), ("[]", 204)] {
        assert_eq!(post(&daemon, DATAPOINTS, body).status, status, "{body}");
    }
    for method in ["GET", "PUT"] {
        assert_eq!(http::request(daemon.api(), method, DATAPOINTS, "", "").status, 405, "{method}");
    }
    daemon.stop_well();
}

#[test]
fn put_tells_what_became_of_the_points() {
    let setup = setup();
    let daemon = setup.start();
    let good = json!({"metric": "m", "timestamp": NOW, "value": "7", "tags": {"h": "a"}});
    let bad = json!({"metric": "m", "timestamp": NOW, "value": "x", "tags": {"h": "a"}});
    assert_eq!(post(&daemon, "/api/put", &good.to_string()).status, 204);
    assert_eq!(points(&daemon, "m;h=a"), [(NOW, 7.0)]);
    let answer = post(&daemon, "/api/put?summary", &json!([good]).to_string());
    let value = |answer: &Response| serde_json::from_str::<Value>(&answer.body).unwrap();
    assert_eq!((answer.status, value(&answer)), (200, json!({"success": 1, "failed": 0})));
    let answer = post(&daemon, "/api/put?details=true&sync", &json!([good, bad]).to_string());
    assert_eq!((answer.status, value(&answer)["success"].as_u64()), (400, Some(1)));
    assert_eq!(value(&answer)["errors"][0]["datapoint"], bad);
    let answer = post(&daemon, "/api/put", &json!([bad]).to_string());
    assert_eq!((answer.status, value(&answer)["error"]["code"].as_u64()), (400, Some(400)));
    daemon.stop_well();
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_bodies_and_bombs() {
    let setup = setup();
    let daemon = setup.start();
    let body = format!(r#"{{"name":"m","tags":{{"h":"a"}},"datapoints":[[{NOW}000,1]]}}"#);
    let packed = gzip(body.as_bytes());
    for (headers, body, status) in [
        ("Content-Encoding: gzip\r\n", &packed[..], 204),
        ("Content-Type: application/gzip\r\n", &packed[..], 204),
        ("Content-Type: applicaton/json\r\n", body.as_bytes(), 204),
        ("", &packed[..], 400),
        ("Content-Encoding: gzip\r\n", &packed[..packed.len() - 4], 400),
        ("Content-Encoding: gzip\r\n", body.as_bytes(), 400),
    ] {
        assert_eq!(http::post_bytes(daemon.api(), DATAPOINTS, headers, body).status, status, "{headers}");
    }
    assert_eq!(points(&daemon, "m;h=a"), [(NOW, 1.0)]);
    let before = daemon.memory("VmHWM");
    let bomb = gzip(&vec![b' '; 256 << 20]);
    let nested = "[".repeat(3 << 20);
    let tags = (0..200_000).map(|i| format!("\"t{i}\":\"v\",")).collect::<String>();
    let tags = format!(r#"{{"name":"m","tags":{{{tags}"a":"1"}},"datapoints":[[0,1]]}}"#);
    let name = format!(r#"{{"name":"{}","tags":{{"a":"1"}},"datapoints":[[0,1]]}}"#, "n".repeat(3 << 20));
    let large = vec![b' '; 16 << 20];
    for (headers, body, status) in [
        ("Content-Encoding: gzip\r\n", &bomb[..], 413),
        ("", nested.as_bytes(), 400),
        ("", tags.as_bytes(), 400),
        ("", name.as_bytes(), 400),
        ("", &large[..], 413),
    ] {
        for _ in 0..5 {
            let answer = http::post_bytes(daemon.api(), DATAPOINTS, headers, body);
            assert_eq!(answer.status, status, "{}", answer.body);
            assert!(
                answer.body.len() < 10_000 && answer.body.starts_with("{\"errors\":["),
                "{}",
                answer.body
            );
        }
    }
    // A client that sends everything before it reads gets this answer too.
    let mut stream = TcpStream::connect(daemon.api()).unwrap();
    let head = format!("POST {DATAPOINTS} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", large.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&large).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
    let grown = daemon.memory("VmHWM").saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more");
    assert_eq!(
        http::post_bytes(daemon.api(), DATAPOINTS, "", body.as_bytes()).status,
        204,
        "others are unaffected"
    );
    let ledger = daemon.ledger();
    assert!(ledger.balances() && ledger.rejected >= 28, "{ledger:?}");
    daemon.stop_well();
}

#[test]
fn bad_points_are_counted_by_reason() {
    let setup = setup();
    let daemon = setup.start();
    let body = |name: &str, tags: &str, point: &str| {
        format!(r#"{{"name":"{name}","tags":{{{tags}}},"datapoints":[{point}]}}"#)
    };
    let tag = "\"h\":\"a\"";
    let now = format!("[{NOW}000,1]");
    let long = "n".repeat(70_000);
    for (body, reason) in [
        (body("m", tag, &format!("[{NOW}000,\"text\"]")), "value"),
        (body("m", tag, &format!("[{NOW}000,1,\"kairos_complex\"]")), "value"),
        (body("m", tag, &format!("[{NOW}000,null]")), "nan"),
        (body("m", tag, "[-1,1]"), "timestamp"),
        (body("m", tag, "[-9223372036854775808,1]"), "timestamp"),
        (body("m", tag, "[\"soon\",1]"), "timestamp"),
        (body("m", tag, "[9223372036854775807,1]"), "future"),
        (body("m", tag, "[1e300,1]"), "future"),
        (body("m", tag, "[]"), "item"),
        (body("", tag, &now), "name_empty"),
        (body(&long, tag, &now), "name_too_long"),
        (body("m", "", &now), "tags"),
        (body("m", "\"h\":\"\"", &now), "tags"),
        (body("m", "\"h\":\"a\",\"h\":\"b\"", &now), "tags"),
        (body("m", tag, &format!("[{NOW}000,1e999]")), "nan"),
        (body("m", tag, &format!("[{NOW}000,NaN]")), "value"),
        (format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)), "frame"),
        ("not JSON".to_owned(), "frame"),
    ] {
        let label = format!("listener=\"api\",reason=\"{reason}\"");
        let count = || daemon.counters().with("plumbago_rejected_points_total", &label);
        let before = count();
        let answer = post(&daemon, DATAPOINTS, &body);
        let shown: String = body.chars().take(100).collect();
        assert!(answer.status == 400 && answer.body.starts_with("{\"errors\":["), "{shown}: {}", answer.body);
        assert_eq!(count() - before, 1, "{shown} is counted as {reason}");
    }
    // Whole numbers that a double cannot hold are stored as the nearest one, and counted.
    let large =
        body("large", tag, &format!("[{NOW}000,9007199254740993],[{}000,18446744073709551616]", NOW - 1));
    assert_eq!(post(&daemon, DATAPOINTS, &large).status, 204);
    assert_eq!(
        points(&daemon, "large;h=a"),
        [(NOW - 1, 18_446_744_073_709_551_616.0), (NOW, 9_007_199_254_740_992.0)]
    );
    assert_eq!(daemon.counters().sum("plumbago_ingest_rounded_integers_total"), 1);
    assert!(daemon.ledger().balances(), "{:?}", daemon.ledger());
    daemon.stop_well();
}

#[test]
fn quotas_hold_for_requests_too() {
    let mut setup = setup();
    let rules = setup.file("quotas.conf", "[teams]\npattern = teams.*\nmetrics = 2\n");
    setup.set("quotas.rules", rules.to_str().unwrap());
    let daemon = setup.start();
    let one =
        |host: &str| json!({"name": "teams.a.load", "tags": {"host": host}, "datapoints": [[NOW * 1000, 1]]});
    let all: Vec<Value> = ["a", "b", "c", "d"].map(one).into();
    // The engine checks the quota after the request was accepted, as it does for lines.
    assert_eq!(post(&daemon, DATAPOINTS, &json!(all).to_string()).status, 204);
    daemon.applied_at(4);
    let refused =
        daemon.counters().with("plumbago_rejected_points_total", "stage=\"engine\",reason=\"quota\"");
    assert_eq!(refused, 2);
    let found = || daemon.render("seriesByTag('name=teams.a.load')", NOW - 100, NOW, NOW).len();
    wait_until("the two series to be found", || found() == 2);
    let other = json!({"name": "free", "tags": {"host": "a"}, "datapoints": [[NOW * 1000, 1]]});
    assert_eq!(post(&daemon, DATAPOINTS, &other.to_string()).status, 204);
    assert_eq!(points(&daemon, "free;host=a"), [(NOW, 1.0)]);
    let ledger = daemon.ledger_at(5);
    assert!(ledger.balances() && ledger.rejected == 2, "{ledger:?}");
    daemon.stop_well();
}

/// Kills the daemon twenty times while it processes requests. `PLUMBAGO_TEST_KILLS` sets another number.
#[test]
fn a_kill_loses_nothing_that_was_answered() {
    let kills: i64 = number("PLUMBAGO_TEST_KILLS").unwrap_or(20);
    let setup = setup();
    let mut daemon = setup.start();
    let mut answered_in_all = 0;
    for kill in 0..kills {
        let address = daemon.api();
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
        let senders: Vec<_> = (0..4)
            .map(|sender| {
                let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
                std::thread::spawn(move || send_until(address, kill, sender, &stop, &answered))
            })
            .collect();
        wait_until("some requests to be answered", || answered.load(Ordering::Relaxed) > 30 + kill);
        daemon.kill();
        stop.store(true, Ordering::Relaxed);
        let last: Vec<i64> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        daemon = setup.start();
        for (sender, last) in last.into_iter().enumerate() {
            for request in 0..last {
                let name = format!("kill{kill};request={request};sender={sender}");
                assert_eq!(points(&daemon, &name), [(NOW, request as f64)], "{name} of {last}");
            }
            answered_in_all += last;
        }
    }
    println!("{answered_in_all} answered requests, {kills} kills, none missing");
}

/// Sends one point per request. Returns the number of requests that were answered with 204.
fn send_until(address: SocketAddr, kill: i64, sender: i64, stop: &AtomicBool, answered: &AtomicI64) -> i64 {
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        let tags = json!({"sender": sender.to_string(), "request": sent.to_string()});
        let body = json!({"name": format!("kill{kill}"), "tags": tags, "datapoints": [[NOW * 1000, sent]]});
        match http::try_request(address, "POST", DATAPOINTS, "", &body.to_string()) {
            Ok(answer) if answer.status == 204 => {
                sent += 1;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            _ => break,
        }
    }
    sent
}
