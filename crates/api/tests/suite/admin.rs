//! The admin port, over HTTP.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Answer, exchange};
use async_trait::async_trait;
use plumbago_api::{AdminActions, AdminConfig, AdminError, AdminHandles, PeerHeads, Readiness, Server};
use plumbago_telemetry::Registry;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
struct Process {
    reasons: Mutex<Vec<String>>,
    shutdowns: AtomicUsize,
}

impl Readiness for Process {
    fn reasons(&self) -> Vec<String> {
        self.reasons.lock().unwrap().clone()
    }
}

#[async_trait]
impl AdminActions for Process {
    async fn flush(&self) -> Result<Value, AdminError> {
        Err(AdminError("the disk is full".to_owned()))
    }

    async fn ledger(&self) -> Result<Value, AdminError> {
        Ok(json!({"received": 3}))
    }

    async fn shutdown(&self) -> Result<Value, AdminError> {
        self.shutdowns.fetch_add(1, Ordering::SeqCst);
        Ok(json!({}))
    }

    async fn replay(&self, since: i64) -> Result<Value, AdminError> {
        Ok(json!({ "since": since }))
    }

    async fn set_clock(&self, now: i64) -> Result<Value, AdminError> {
        Ok(json!({ "now": now }))
    }
}

#[async_trait]
impl PeerHeads for Process {
    async fn pending(&self, message: &[u8]) -> Result<Vec<u8>, AdminError> {
        Ok(message.iter().rev().copied().collect())
    }
}

async fn serve(token: &str) -> (Arc<Process>, impl AsyncFn(&str, &str) -> Answer) {
    let (process, registry) = (Arc::new(Process::default()), Registry::new());
    registry.counter("plumbago_test_total", "a counter", &[]).add(7);
    let handles = AdminHandles {
        readiness: Arc::clone(&process) as Arc<dyn Readiness>,
        actions: Arc::clone(&process) as Arc<dyn AdminActions>,
        heads: Arc::clone(&process) as Arc<dyn PeerHeads>,
        registry,
    };
    let config =
        AdminConfig { listen: "127.0.0.1:0".to_owned(), token: token.to_owned(), ..AdminConfig::default() };
    let server = Server::bind_admin(&config, &handles).await.unwrap().unwrap();
    let address = server.address();
    tokio::spawn(server.run(CancellationToken::new()));
    let ask = async move |request: &str, headers: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let host = if headers.contains("host:") { "" } else { "host: localhost\r\n" };
        let request = format!("{request} HTTP/1.1\r\n{host}connection: close\r\n{headers}\r\n");
        exchange(&mut stream, &request).await
    };
    (process, ask)
}

#[tokio::test]
async fn health_metrics_and_actions() {
    let (process, ask) = serve("").await;
    assert_eq!(ask("GET /healthz", "").await.text(), "ok\n");
    assert_eq!(ask("GET /readyz", "").await.json(), json!({"ready": true, "reasons": [], "warnings": []}));
    process.reasons.lock().unwrap().push("the journal is being replayed".to_owned());
    let ready = ask("GET /readyz", "").await;
    assert_eq!((ready.status, &ready.json()["reasons"][0]), (503, &json!("the journal is being replayed")));
    let metrics = ask("GET /metrics", "").await;
    assert!(metrics.text().contains("plumbago_test_total 7"), "{}", metrics.text());
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(ask("GET /admin/ledger", "").await.json(), json!({"received": 3}));
    let flush = ask("POST /admin/flush", "content-length: 0\r\n").await;
    assert_eq!((flush.status, flush.text()), (503, "the disk is full\n"));
    assert_eq!(ask("GET /admin/shutdown", "").await.status, 405);
    assert_eq!(process.shutdowns.load(Ordering::SeqCst), 0);
    assert_eq!(ask("POST /admin/shutdown", "content-length: 0\r\n").await.status, 200);
    assert_eq!(process.shutdowns.load(Ordering::SeqCst), 1);
    assert_eq!(ask("GET /nothing", "").await.status, 404);
}

/// A page in a browser on this machine can neither change nor read anything.
#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let (process, ask) = serve("").await;
    for headers in [
        "origin: http://evil.example\r\n",
        "sec-fetch-site: cross-site\r\n",
        "host: evil.example:8081\r\norigin: http://evil.example:8081\r\n",
    ] {
        let headers = format!("{headers}content-length: 0\r\n");
        for request in ["POST /admin/shutdown", "POST /admin/flush", "POST /admin/maintenance?job=x"] {
            assert_eq!(ask(request, &headers).await.status, 403, "{request} {headers}");
        }
    }
    for request in ["GET /admin/ledger", "GET /metrics", "GET /readyz"] {
        assert_eq!(ask(request, "host: evil.example:8081\r\n").await.status, 403, "{request}");
    }
    assert_eq!(process.shutdowns.load(Ordering::SeqCst), 0);
    let own = "host: 127.0.0.1:8081\r\norigin: http://127.0.0.1:8081\r\nsec-fetch-site: same-origin\r\n";
    assert_eq!(ask("POST /admin/shutdown", &format!("{own}content-length: 0\r\n")).await.status, 200);
}

#[tokio::test]
async fn the_token_guards_all_but_health() {
    let (process, ask) = serve("0123456789abcdef").await;
    let bearer = |token: &str| format!("authorization: Bearer {token}\r\ncontent-length: 0\r\n");
    for wrong in
        ["", "authorization: x\r\n", &bearer("0123456789abcdeF"), &bearer(""), &bearer("0123456789abcdef0")]
    {
        for request in ["GET /metrics", "GET /admin/ledger", "POST /admin/shutdown", "GET /nothing"] {
            let answer = ask(request, wrong).await;
            assert_eq!(
                (answer.status, answer.header("www-authenticate")),
                (401, Some("Bearer")),
                "{request}"
            );
        }
        assert_eq!(ask("GET /healthz", wrong).await.status, 200);
        assert_eq!(ask("GET /readyz", wrong).await.status, 200);
    }
    assert_eq!(process.shutdowns.load(Ordering::SeqCst), 0);
    assert_eq!(ask("GET /metrics", &bearer("0123456789abcdef")).await.status, 200);
    assert_eq!(ask("POST /admin/shutdown", &bearer("0123456789abcdef")).await.status, 200);
}
