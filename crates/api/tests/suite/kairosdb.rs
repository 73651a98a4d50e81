//! KairosDB's paths apart from points: health, wrong methods, and requests from pages of other sites.

use std::sync::Arc;

use crate::support::{Running, metrics, start, start_in};
use plumbago_api::{Config, Readiness};
use plumbago_telemetry::{Condition, Conditions, Registry, Severity};
use serde_json::json;

#[derive(Debug)]
struct Process(Conditions);

impl Readiness for Process {
    fn conditions(&self) -> Vec<Condition> {
        self.0.list()
    }
}

async fn ask(server: &Running, method: &str, path: &str, headers: &str) -> crate::support::Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    server.ask(&request).await
}

#[tokio::test]
async fn health_is_that_of_the_process() {
    let conditions = Conditions::new(&Registry::new());
    let server = start_in(Config::default(), metrics(), Arc::new(Process(conditions.clone()))).await;
    let status = async || server.get("/api/v1/health/status").await.json();
    let check = async || server.get("/api/v1/health/check").await.status;
    let well = json!(["JVM-Thread-Deadlock: OK", "Datastore-Query: OK"]);
    assert_eq!((check().await, status().await), (204, well.clone()));
    conditions.begin_as(Severity::Warning, "peers", "one is away");
    assert_eq!((check().await, status().await), (204, well.clone()));
    conditions.begin_as(Severity::NotReady, "store_broken", "the disk is full");
    let ill = json!(["JVM-Thread-Deadlock: OK", "Datastore-Query: FAIL", "store_broken: FAIL"]);
    assert_eq!((check().await, status().await), (500, ill));
    conditions.end("store_broken");
    assert_eq!((check().await, status().await), (204, well));
}

#[tokio::test]
async fn pages_of_other_sites() {
    const PATHS: &[&str] = &["datapoints", "datapoints/query", "metricnames", "version/", "health/check"];
    const DELETES: &[&str] = &["datapoints/delete", "metric/x"];
    let origin = "origin: https://other.example.org\r\n";
    let preflight = format!("{origin}access-control-request-method: POST\r\n");
    let allowed = "access-control-allow-origin";
    let server = start(Config::default(), metrics()).await;
    for path in PATHS {
        let path = format!("/api/v1/{path}");
        assert_eq!(ask(&server, "GET", &path, origin).await.header(allowed), Some("*"), "{path}");
        let before = ask(&server, "OPTIONS", &path, &preflight).await;
        assert_eq!((before.status, before.header(allowed)), (200, Some("*")), "{path}");
        assert_eq!(before.header("access-control-max-age"), Some("86400"), "{path}");
        assert_eq!(ask(&server, "PUT", &path, origin).await.header(allowed), Some("*"), "{path}");
    }
    for path in DELETES {
        let path = format!("/api/v1/{path}");
        for method in ["OPTIONS", "POST", "DELETE"] {
            assert_eq!(
                ask(&server, method, &path, &preflight).await.header(allowed),
                None,
                "{method} {path}"
            );
        }
    }
    for path in ["/render", "/version", "/api/put", "/nothing"] {
        assert_eq!(ask(&server, "GET", path, origin).await.header(allowed), None, "{path}");
    }

    let mine = "https://grafana.example.org";
    let config = Config { cors_allowed_origins: vec![mine.to_owned()], ..Config::default() };
    let server = start(config, metrics()).await;
    for path in PATHS.iter().chain(DELETES) {
        let path = format!("/api/v1/{path}");
        assert_eq!(ask(&server, "OPTIONS", &path, &preflight).await.header(allowed), None, "{path}");
        let preflight = preflight.replace("https://other.example.org", mine);
        assert_eq!(ask(&server, "OPTIONS", &path, &preflight).await.header(allowed), Some(mine), "{path}");
    }
}

#[tokio::test]
async fn methods_and_slashes() {
    let server = start(Config::default(), metrics()).await;
    for (method, path, allow) in [
        ("PUT", "datapoints", "GET, HEAD, POST, OPTIONS"),
        ("GET", "datapoints", "POST"),
        ("GET", "datapoints/delete", "POST"),
        ("GET", "metric/x", "DELETE, OPTIONS"),
    ] {
        for slash in ["", "/"] {
            let answer = ask(&server, method, &format!("/api/v1/{path}{slash}"), "").await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}{slash}");
        }
    }
    // The error has the form of the protocol.
    let kairosdb = ask(&server, "PUT", "/api/v1/datapoints/query", "").await;
    assert!(kairosdb.json()["errors"][0].is_string(), "{}", kairosdb.text());
    let opentsdb = ask(&server, "PUT", "/api/query", "").await;
    assert_eq!((opentsdb.status, &opentsdb.json()["error"]["code"]), (405, &json!(405)));
    let version = server.get("/api/v1/version/").await.json();
    assert!(version["version"].as_str().is_some_and(|text| text.starts_with("KairosDB")), "{version}");
    assert_eq!(server.get("/api/v1/health").await.status, 404);
}
