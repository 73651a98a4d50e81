//! `index.mode = "sasi"`: how a daemon without names in memory answers KairosDB's and OpenTSDB's clients. It
//! accepts their points. All other requests are answered, in the form of their protocol, with the message
//! that the names are missing and which setting is needed.

use std::io::Write;
use std::net::TcpStream;

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http::{self, Response};
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::sasi::{now, sent, setup, syncdb};

const KEYSPACE: &str = "sasi_kairosdb";
const METRIC: &str = "sasi.temp";
const MISSING: &str = "index.mode = \"memory\"";

fn open(mode: &str, now: i64) -> Setup {
    let mut setup = setup(KEYSPACE, mode, now);
    setup.set("api.point_writes", "true").set("api.deletes", "true");
    setup.set("ingest.opentsdb.listen", "127.0.0.1:0");
    setup
}

fn ask(daemon: &Daemon, method: &str, path: &str, body: &str) -> Response {
    http::request(daemon.api(), method, path, "", body)
}

fn json_of(answer: &Response) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// Sends a point for each host, each in another way.
fn write(sasi: &Daemon, time: i64) {
    let datapoints = json!([{"name": METRIC, "tags": {"host": "a"}, "datapoints": [[time * 1000, 5]]}]);
    let put = json!({"metric": METRIC, "timestamp": time, "value": 7, "tags": {"host": "b"}});
    for (path, body) in [("/api/v1/datapoints", &datapoints), ("/api/put", &put)] {
        let answer = ask(sasi, "POST", path, &body.to_string());
        assert_eq!(answer.status, 204, "{path}: {answer:?}");
    }
    let mut lines = TcpStream::connect(sasi.address("opentsdb tcp")).unwrap();
    lines.write_all(format!("put {METRIC} {time} 9 host=c\n").as_bytes()).unwrap();
    // Tagged series are read by their exact names.
    for (host, value) in [("a", 5.0), ("b", 7.0), ("c", 9.0)] {
        let points = sasi.wait_points(&format!("{METRIC};host={host}"), time - 600, time);
        assert_eq!(points, [(time, value)], "{host}");
    }
}

fn query(now: i64) -> Value {
    json!({
        "start_absolute": (now - 3600) * 1000,
        "end_absolute": now * 1000,
        "metrics": [{"name": METRIC, "group_by": [{"name": "tag", "tags": ["host"]}]}],
    })
}

/// The answer of a daemon with names in memory.
fn values(memory: &Daemon, now: i64) -> Vec<f64> {
    let (status, answer) = http::post_json(memory.api(), "/api/v1/datapoints/query", &query(now));
    assert_eq!(status, 200, "{answer}");
    let results = answer["queries"][0]["results"].as_array().unwrap();
    let points = results.iter().flat_map(|result| result["values"].as_array().unwrap());
    points.map(|pair| pair[1].as_f64().unwrap()).collect()
}

#[test]
fn clients_are_told_what_is_missing() {
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let now = now();
    let (in_memory, by_sasi) = (open("memory", now), open("sasi", now));
    syncdb(&in_memory);
    let (memory, sasi) = (in_memory.start(), by_sasi.start());
    write(&sasi, now - 60);
    sent(&sasi);
    let all = [5.0, 7.0, 9.0];
    wait_until("a daemon with names in memory to answer with the points", || values(&memory, now) == all);

    refuses_as_kairosdb(&sasi, now);
    refuses_as_opentsdb(&sasi, now);
    // Requests that need no names are answered, and wrong requests get their usual errors.
    for path in [
        "/api/v1/version",
        "/api/v1/health/status",
        "/api/aggregators",
        "/api/config/filters",
        "/api/version",
    ] {
        let answer = sasi.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    wait_until("the health check", || sasi.get("/api/v1/health/check").status == 204);
    for path in ["/api/v1/datapoints", "/api/v1/datapoints/query", "/api/put"] {
        let answer = ask(&sasi, "POST", path, "[");
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
    }
    // Nothing was deleted.
    assert_eq!(values(&memory, now), all);
    sasi.stop_well();
    memory.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}

fn refuses_as_kairosdb(sasi: &Daemon, now: i64) {
    let query = query(now).to_string();
    let by_get = http::url("/api/v1/datapoints/query", &[("query", &query)]);
    let whole = json!({"start_absolute": 0, "metrics": [{"name": METRIC}]}).to_string();
    let metric = format!("/api/v1/metric/{METRIC}");
    for (method, path, body) in [
        ("POST", "/api/v1/datapoints/query", query.as_str()),
        ("GET", by_get.as_str(), ""),
        ("POST", "/api/v1/datapoints/query/tags", query.as_str()),
        ("GET", "/api/v1/metricnames", ""),
        ("GET", "/api/v1/metricnames?prefix=sasi", ""),
        ("GET", "/api/v1/tagnames", ""),
        ("GET", "/api/v1/tagvalues", ""),
        ("POST", "/api/v1/datapoints/delete", whole.as_str()),
        ("DELETE", metric.as_str(), ""),
    ] {
        let answer = ask(sasi, method, path, body);
        let text = json_of(&answer)["errors"][0].as_str().unwrap_or_default().to_owned();
        assert!(answer.status == 403 && text.contains(MISSING), "{method} {path}: {answer:?}");
    }
}

fn refuses_as_opentsdb(sasi: &Daemon, now: i64) {
    let query =
        json!({"start": now - 3600, "queries": [{"metric": METRIC, "aggregator": "sum"}]}).to_string();
    let by_get = format!("/api/query?start={}&m=sum:{METRIC}", now - 3600);
    let suggest = json!({"type": "metrics", "q": "sasi"}).to_string();
    let lookup = json!({"metric": METRIC}).to_string();
    let by_name = format!("/api/search/lookup?m={METRIC}");
    for (method, path, body) in [
        ("POST", "/api/query", query.as_str()),
        ("GET", by_get.as_str(), ""),
        ("GET", "/api/suggest?type=metrics&q=sasi", ""),
        ("GET", "/api/suggest?type=tagk", ""),
        ("GET", "/api/suggest?type=tagv", ""),
        ("POST", "/api/suggest", suggest.as_str()),
        ("GET", by_name.as_str(), ""),
        ("POST", "/api/search/lookup", lookup.as_str()),
    ] {
        // The same requests on the port of OpenTSDB's lines.
        for address in [sasi.api(), sasi.address("opentsdb tcp")] {
            let answer = http::request(address, method, path, "", body);
            let error = json_of(&answer)["error"].clone();
            let text = error["message"].as_str().unwrap_or_default();
            let is_said = error["code"] == 403 && text.contains(MISSING);
            assert!(answer.status == 403 && is_said, "{method} {path}: {answer:?}");
        }
    }
}
