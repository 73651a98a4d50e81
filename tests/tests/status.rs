//! `/plumbago/status`: what it contains, and who may read it.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http::{self, Response};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_for;
use serde_json::Value;

const NOW: i64 = 1_700_000_040;

/// A request with only these headers.
fn asked(address: SocketAddr, headers: &str) -> Response {
    asked_for(address, ("GET", "/plumbago/status", ""), headers)
}

fn status(daemon: &Daemon) -> Value {
    let answer = daemon.get("/plumbago/status");
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn it_tells_what_became_of_the_points() {
    let mut setup = Setup::new();
    setup.clock(NOW).set("self_metrics.interval", "60s");
    let daemon = setup.start();
    daemon.put(&[Point::new("a.b", NOW, 1.0), Point::new("a.c", NOW, 2.0)]);
    daemon.sender().try_bytes(b"a.d one 1700000000\na.e 1 2 3 4\n").unwrap();
    let status = wait_for("both refusals", || {
        Some(status(&daemon))
            .filter(|status| status["ledger"]["rejected"] == 2 && status["ledger"]["held"] == 2)
    });
    assert_eq!((&status["ready"], &status["now"]), (&Value::Bool(true), &NOW.into()));
    let ledger = &status["ledger"];
    assert_eq!((&ledger["received"], &ledger["missing"]), (&4.into(), &0.into()));
    assert_eq!(
        (&ledger["rejected_by_reason"]["value"], &ledger["rejected_by_reason"]["fields"]),
        (&1.into(), &1.into())
    );
    let refused = status["refused"].as_array().unwrap();
    let value = refused.iter().find(|one| one["reason"] == "value").unwrap();
    assert_eq!((&value["text"], &value["listener"]), (&"a.d one 1700000000".into(), &"line".into()));
    assert!(value["sender"].as_str().unwrap().starts_with("127.0.0.1:"), "{value}");
    assert!(value["at"].as_i64().unwrap() > 0);
    let about = &status["about"];
    assert_eq!(about["store"], "embedded");
    assert!(about["self_metrics"].as_str().unwrap().starts_with("carbon.agents."), "{about}");
    assert!(about["memory_bytes"].as_u64().unwrap() > 1 << 20);
    let figure = |name: &str, label: Option<(&str, &str)>| {
        let figures = status["figures"].as_array().unwrap().iter();
        let is = |one: &&Value| {
            one["name"] == name && label.is_none_or(|(label, value)| one["labels"][label] == value)
        };
        figures.clone().find(is).unwrap_or_else(|| panic!("no {name}"))["value"].as_f64().unwrap()
    };
    assert_eq!(figure("plumbago_ingest_received_total", Some(("listener", "line"))), 4.0);
    assert_eq!(figure("plumbago_engine_received_points_total", None), 2.0);
    assert!(status["conditions"].is_array() && status["jobs"].is_array(), "{status}");
}

/// The stages in a status, in their order, with what the store has for each.
fn stages(status: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let stages = status["store"]["stages"].as_array().unwrap().iter();
    stages.map(|stage| (text(&stage["stage"]), text(&stage["holds"]))).collect()
}

#[test]
fn it_tells_the_embedded_store_by_stage() {
    let mut setup = Setup::new();
    setup.clock(NOW).schemas("[all]\npattern = .*\nretentions = 60s:1d,5m:30d\n");
    let daemon = setup.start();
    let before = status(&daemon)["store"].clone();
    assert_eq!((&before["kind"], &before["stages"]), (&"embedded".into(), &Value::Array(Vec::new())));
    assert!(before["log_bytes"].is_u64(), "{before}");
    let points = |name: &'static str| (0..60).map(move |minute| Point::new(name, NOW - minute * 60, 1.0));
    daemon.put(&["a.b", "a.c"].into_iter().flat_map(points).collect::<Vec<_>>());
    daemon.flush();
    let raw = ("60s:86400s".to_owned(), "raw".to_owned());
    let windows = ("300s:2592000s".to_owned(), "windows".to_owned());
    let flushed = status(&daemon);
    assert_eq!(stages(&flushed), [raw.clone(), windows.clone()], "{flushed}");
    for stage in flushed["store"]["stages"].as_array().unwrap() {
        assert!(stage["blocks"].as_u64().unwrap() >= 2, "a block of each metric: {stage}");
        let since = stage["since"].as_i64().unwrap();
        assert!(since > 0 && since <= NOW - 3300, "{stage}");
    }
    daemon.stop_well();
    let daemon = setup.start();
    let again = status(&daemon);
    assert_eq!(stages(&again), [raw, windows], "{again}");
    for stage in again["store"]["stages"].as_array().unwrap() {
        assert!(stage["bytes"].as_u64().unwrap() > 0, "a stop writes all blocks into tables: {stage}");
    }
    assert!(again["store"]["names_bytes"].as_u64().unwrap() > 0, "{again}");
    daemon.stop_well();
}

#[test]
fn on_cassandra_it_tells_the_tables_and_guesses_no_sizes() {
    const KEYSPACE: &str = "status_stages";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let mut setup = Setup::new();
    setup.clock(now).schemas("[all]\npattern = .*\nretentions = 60s:1d,5m:30d\n");
    setup.on_cassandra(&server.contact_point(), KEYSPACE);
    let daemon = setup.start();
    daemon.put(&(0..60).rev().map(|minute| Point::new("a.b", now - minute * 60, 1.0)).collect::<Vec<_>>());
    daemon.flush();
    let status = wait_for("both tables to be used", || {
        let status = status(&daemon);
        let stages = status["store"]["stages"].as_array().unwrap();
        let used: Vec<&str> = stages
            .iter()
            .filter(|stage| stage["used"] == true)
            .map(|stage| stage["table"].as_str().unwrap())
            .collect();
        ["datapoints_1440p_60s_0", "datapoints_8640p_300s_aggr"]
            .iter()
            .all(|table| used.contains(table))
            .then_some(status)
    });
    let store = &status["store"];
    assert_eq!((&store["kind"], &store["keyspace"]), (&"cassandra".into(), &KEYSPACE.into()));
    let tables: Vec<&str> =
        store["stages"].as_array().unwrap().iter().map(|stage| stage["table"].as_str().unwrap()).collect();
    assert!(tables.contains(&"datapoints_1440p_60s_0"), "{tables:?}");
    assert!(tables.contains(&"datapoints_8640p_300s_aggr"), "{tables:?}");
    for stage in store["stages"].as_array().unwrap() {
        assert_eq!(
            (&stage["rows"], &stage["bytes"], &stage["trouble"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    }
    daemon.stop_well();
}

#[test]
fn only_this_machine_or_the_token_opens_it() {
    let mut setup = Setup::new();
    setup.clock(NOW).set("api.page.hosts", "Graphite.Example").set("api.cors_allowed_origins", "*");
    let daemon = setup.start();
    let address = daemon.api();
    let code = |headers: &str| asked(address, headers).status;
    let own = format!("Host: {address}\r\n");
    assert_eq!(code(&own), 200);
    assert_eq!(code("Host: localhost\r\n"), 200);
    assert_eq!(code("Host: graphite.example:8080\r\n"), 200);
    assert_eq!(code("Host: evil.example\r\n"), 401, "a name that was rebound to this machine");
    assert_eq!(code(&format!("{own}X-Forwarded-For: 10.0.0.7\r\n")), 401, "a client of a proxy");
    assert_eq!(code(&format!("{own}Origin: http://evil.example\r\n")), 403);
    let token = daemon.authorization();
    assert_eq!(code(&format!("Host: evil.example\r\n{token}")), 200);
    assert_eq!(code(&format!("Host: evil.example\r\n{token}Origin: http://other.example\r\n")), 403);
    let answer = asked(address, &own);
    assert_eq!(answer.header("access-control-allow-origin"), None, "no other site may read it");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let other = daemon.get("/plumbago/browse?path=");
    assert_eq!(other.status, 200);
    daemon.stop_well();

    setup.set("api.page.status", "token").set("admin.token", "a-token-of-sixteen-or-more");
    let daemon = setup.start();
    let own = format!("Host: {}\r\n", daemon.api());
    assert_eq!(asked(daemon.api(), &own).status, 401);
    assert_eq!(asked(daemon.api(), &format!("{own}Authorization: Bearer wrong\r\n")).status, 401);
    let right = format!("{own}Authorization: Bearer a-token-of-sixteen-or-more\r\n");
    assert_eq!(asked(daemon.api(), &right).status, 200);
    daemon.stop_well();

    setup.set("api.page.status", "off");
    let daemon = setup.start();
    assert_eq!(asked(daemon.api(), &right).status, 404);
    daemon.stop_well();
}

/// A request with only these headers.
fn asked_for(address: SocketAddr, (method, path, body): (&str, &str, &str), headers: &str) -> Response {
    let (mut stream, length) = (TcpStream::connect(address).unwrap(), body.len());
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    http::read_response(&mut stream).unwrap()
}

/// Checks that a path below `/plumbago` has the same access control as the status.
pub(crate) fn assert_open_as_the_status(setup: &mut Setup, path: &str, body: &str) {
    setup.set("api.cors_allowed_origins", "*");
    let daemon = setup.start();
    let address = daemon.api();
    let own = format!("Host: {address}\r\n");
    for method in ["GET", "POST"] {
        let code = |headers: &str| asked_for(address, (method, path, body), headers).status;
        assert_eq!(code(&own), 200, "{method}");
        assert_eq!(code("Host: evil.example\r\n"), 401, "a name that was rebound to this machine");
        assert_eq!(code(&format!("{own}X-Forwarded-For: 10.0.0.7\r\n")), 401, "a client of a proxy");
        assert_eq!(code(&format!("{own}Origin: http://evil.example\r\n")), 403);
        assert_eq!(code(&format!("Host: evil.example\r\n{}", daemon.authorization())), 200);
    }
    let answer = asked_for(address, ("GET", path, body), &own);
    assert_eq!(answer.header("access-control-allow-origin"), None, "no other site may read it");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    daemon.stop_well();

    setup.set("api.page.status", "token");
    let daemon = setup.start();
    let own = format!("Host: {}\r\n", daemon.api());
    for method in ["GET", "POST"] {
        let code = |headers: &str| asked_for(daemon.api(), (method, path, body), headers).status;
        assert_eq!((code(&own), code(&format!("{own}{}", daemon.authorization()))), (401, 200), "{method}");
    }
    daemon.stop_well();

    setup.set("api.page.status", "off");
    let daemon = setup.start();
    assert_eq!(asked_for(daemon.api(), ("GET", path, body), &own).status, 404);
    daemon.stop_well();
}
