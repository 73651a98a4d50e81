//! The admin port, over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Answer, exchange};
use plumbago_api::{
    AdminActions, AdminConfig, AdminError, AdminHandles, AdminSecret, MaintenanceRequest, PeerHeads,
    PortLimits, Readiness, Server,
};
use plumbago_boxed_futures::boxed_futures;
use plumbago_telemetry::{Condition, Conditions, Registry, Severity};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct Process {
    conditions: Conditions,
    shutdowns: AtomicUsize,
}

impl Readiness for Process {
    fn conditions(&self) -> Vec<Condition> {
        self.conditions.list()
    }
}

#[boxed_futures]
impl AdminActions for Process {
    async fn flush(&self) -> Result<Value, AdminError> {
        Err(AdminError::Failed("the disk is full".to_owned()))
    }

    async fn ledger(&self) -> Result<Value, AdminError> {
        Ok(json!({"received": 3}))
    }

    async fn shutdown(&self) -> Result<Value, AdminError> {
        self.shutdowns.fetch_add(1, Ordering::SeqCst);
        Ok(json!({}))
    }

    async fn replay(&self, since: i64, dry_run: bool) -> Result<Value, AdminError> {
        Ok(json!({ "since": since, "dry_run": dry_run }))
    }

    async fn set_clock(&self, now: i64) -> Result<Value, AdminError> {
        Ok(json!({ "now": now }))
    }

    async fn run_maintenance(&self, request: MaintenanceRequest) -> Result<Value, AdminError> {
        Err(AdminError::Unknown(format!("there is no job {}", request.job)))
    }
}

#[boxed_futures]
impl PeerHeads for Process {
    async fn pending(&self, message: &[u8]) -> Result<Vec<u8>, AdminError> {
        Ok(message.iter().rev().copied().collect())
    }
}

const SECRET: &str = "fedcba9876543210";

async fn serve(token: &str) -> (Arc<Process>, impl AsyncFn(&str, &str) -> Answer) {
    let (process, address) = open(token, PortLimits::default()).await;
    let ask = async move |request: &str, headers: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let host = if headers.contains("host:") { "" } else { "host: localhost\r\n" };
        let request = format!("{request} HTTP/1.1\r\n{host}connection: close\r\n{headers}\r\n");
        exchange(&mut stream, &request).await
    };
    (process, ask)
}

async fn open(token: &str, limits: PortLimits) -> (Arc<Process>, SocketAddr) {
    let registry = Registry::new();
    let process =
        Arc::new(Process { conditions: Conditions::new(&registry), shutdowns: AtomicUsize::new(0) });
    registry.counter("plumbago_test_total", "a counter", &[]).add(7);
    let handles = AdminHandles {
        readiness: Arc::clone(&process) as Arc<dyn Readiness>,
        actions: Arc::clone(&process) as Arc<dyn AdminActions>,
        heads: Arc::clone(&process) as Arc<dyn PeerHeads>,
        registry,
        secret: AdminSecret { value: SECRET.to_owned(), file: "data/admin-secret".into() },
    };
    let config = AdminConfig {
        listen: "127.0.0.1:0".to_owned(),
        token: token.to_owned(),
        limits,
        ..AdminConfig::default()
    };
    let server = Server::bind_admin(&config, &handles).await.unwrap().unwrap();
    let address = server.address();
    tokio::spawn(server.run(CancellationToken::new()));
    (process, address)
}

/// The headers of a request without a body that sends this token or secret.
fn bearer(known: &str) -> String {
    format!("authorization: Bearer {known}\r\ncontent-length: 0\r\n")
}

#[tokio::test]
async fn health_metrics_and_actions() {
    let (process, ask) = serve("").await;
    assert_eq!(ask("GET /healthz", "").await.text(), "ok\n");
    let nothing = json!({"ready": true, "reasons": [], "warnings": [], "hints": [], "conditions": []});
    assert_eq!(ask("GET /readyz", "").await.json(), nothing);
    process.conditions.begin("memory", "the memory is full");
    let ready = ask("GET /readyz", "").await;
    assert_eq!((ready.status, &ready.json()["warnings"]), (200, &json!(["the memory is full"])));
    process.conditions.begin_as(Severity::Hint, "rules", "keep more");
    process.conditions.begin_as(Severity::Phase, "starting", "the journal is being replayed");
    let ready = ask("GET /readyz", "").await;
    let found = ready.json();
    assert_eq!((ready.status, &found["reasons"]), (503, &json!(["the journal is being replayed"])));
    assert_eq!((&found["hints"], &found["ready"]), (&json!(["keep more"]), &json!(false)));
    assert_eq!(found["conditions"][0]["name"], "memory");
    assert_eq!(found["conditions"][2]["severity"], "phase");
    assert!(found["conditions"][0]["since"].as_u64().unwrap() > 1_700_000_000);
    let metrics = ask("GET /metrics", "").await;
    assert!(metrics.text().contains("plumbago_test_total 7"), "{}", metrics.text());
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(ask("GET /admin/ledger", "").await.json(), json!({"received": 3}));
    let flush = ask("POST /admin/flush", &bearer(SECRET)).await;
    assert_eq!((flush.status, flush.text()), (503, "the disk is full\n"));
    let refused = ask("GET /admin/shutdown", "").await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
    assert_eq!(refused.text(), "GET is not supported here; use POST\n");
    assert_eq!(process.shutdowns.load(Ordering::SeqCst), 0);
    assert_eq!(ask("POST /admin/shutdown", &bearer(SECRET)).await.status, 200);
    assert_eq!(process.shutdowns.load(Ordering::SeqCst), 1);
    assert_eq!(ask("GET /nothing", "").await.status, 404);
    let unknown = ask("POST /admin/maintenance?job=coffee", &bearer(SECRET)).await;
    assert_eq!((unknown.status, unknown.text()), (404, "there is no job coffee\n"));
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
    assert_eq!(ask("POST /admin/shutdown", &format!("{own}{}", bearer(SECRET))).await.status, 200);
}

/// Other users of this machine can reach the port, but cannot read the secret.
#[tokio::test]
async fn what_changes_something_needs_the_secret() {
    let (process, ask) = serve("").await;
    for wrong in ["content-length: 0\r\n", &bearer(""), &bearer("fedcba9876543211"), "authorization: x\r\n"] {
        for path in ["shutdown", "flush", "replay?since=1", "maintenance?job=clean_rows"] {
            let answer = ask(&format!("POST /admin/{path}"), wrong).await;
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{path}");
            assert!(answer.text().contains("data/admin-secret"), "{}", answer.text());
        }
    }
    assert_eq!(process.shutdowns.load(Ordering::SeqCst), 0);
    assert_eq!(ask("GET /metrics", "").await.status, 200);
    assert_eq!(ask("POST /admin/clock?now=1", "content-length: 0\r\n").await.status, 200);
}

/// Idle connections cannot block the port.
#[tokio::test]
async fn idle_connections_give_way() {
    let limits = PortLimits { connections: 4, ..PortLimits::default() };
    let (_, address) = open("", limits).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /rea").await.unwrap();
        idle.push(stream);
    }
    let ask = async || {
        let mut stream = TcpStream::connect(address).await.unwrap();
        exchange(&mut stream, "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await
    };
    // During its first second a connection is kept, because it may be about to send a request.
    while ask().await.status != 200 {
        tokio::task::yield_now().await;
    }
    for _ in 0..8 {
        assert_eq!(ask().await.status, 200);
    }
}

#[tokio::test]
async fn the_token_guards_all_but_health() {
    let (process, ask) = serve("0123456789abcdef").await;
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
    assert_eq!(ask("POST /admin/shutdown", &bearer(SECRET)).await.status, 200);
}
