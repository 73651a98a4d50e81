//! Connections: keep-alive, limits, encryption and shutdown.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Made, default, exchange, metrics, read_answer, start};
use plumbago_api::{BindError, Config, Limits, Server, TlsConfig};
use plumbago_tests::wait::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const RENDER: &str = "GET /render?format=raw&target=db.x.load&from=-1min HTTP/1.1\r\nhost: x\r\n\r\n";
const VERSION: &str = "GET /version HTTP/1.1\r\nhost: x\r\n\r\n";

fn limited(limits: Limits) -> Config {
    Config { limits, ..Config::default() }
}

#[tokio::test]
async fn connections_are_kept_and_requests_counted() {
    let server = default().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..3 {
        assert_eq!(exchange(&mut stream, RENDER).await.status, 200);
    }
    assert_eq!(exchange(&mut stream, "GET /render?format=x HTTP/1.1\r\nhost: x\r\n\r\n").await.status, 400);
    let text = server.registry.prometheus();
    for line in [
        "plumbago_api_requests_total{endpoint=\"render\",status=\"2xx\"} 3",
        "plumbago_api_requests_total{endpoint=\"render\",status=\"4xx\"} 1",
        "plumbago_http_connections_total{port=\"api\"} 1",
        "plumbago_http_open_connections{port=\"api\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    drop(stream);
    eventually("the connections to close", || {
        server.registry.value("plumbago_http_open_connections") == Some(0.0)
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_turned_away() {
    let slow = Made { delay: Duration::from_secs(3600), ..metrics() };
    let server = start(limited(Limits { connections: 2, ..Limits::default() }), slow).await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(RENDER.as_bytes()).await.unwrap();
        busy.push(stream);
    }
    eventually("the requests to start", || server.source.started.load(Ordering::SeqCst) == 2).await;
    let mut third = TcpStream::connect(server.address).await.unwrap();
    let answer = read_answer(&mut third, false).await;
    assert_eq!((answer.status, answer.text()), (503, "too many connections (api.limits.connections)\n"));
    assert_eq!(server.registry.value("plumbago_http_connections_refused_total"), Some(1.0));
    busy.clear();
    eventually("the connections to close", || {
        server.registry.value("plumbago_http_open_connections") == Some(0.0)
    })
    .await;
    assert_eq!(server.get("/version").await.status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_answered() {
    let limits = Limits { request_time: "200ms".parse().unwrap(), ..Limits::default() };
    let server = start(limited(limits), metrics()).await;
    for kind in ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST /render HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: 30\r\n\r\ntarget="
        );
        let answer = exchange(&mut stream, &head).await;
        assert_eq!(answer.status, 408, "{kind}: {}", answer.text());
        assert!(answer.text().contains("api.limits.request_time"), "{}", answer.text());
    }
}

#[tokio::test]
async fn silent_connections_are_closed() {
    let server =
        start(limited(Limits { idle: "50ms".parse().unwrap(), ..Limits::default() }), metrics()).await;
    for begun in ["", "GET /version HTTP/1.1\r\nhost:"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        let rest = String::from_utf8(rest).unwrap();
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest}");
    }
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(exchange(&mut kept, VERSION).await.status, 200);
    assert_eq!(kept.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn garbage_is_answered_or_cut_off() {
    let server = default().await;
    for garbage in
        [&b"\x16\x03\x01\x00\xa5\x01"[..], b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", &[b'x'; 1 << 20]]
    {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.write_all(garbage).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&rest));
    }
    assert_eq!(server.get("/version").await.status, 200);
}

#[tokio::test]
async fn a_read_ends_when_its_client_goes_away() {
    let slow = Made { delay: Duration::from_secs(3600), ..metrics() };
    let server = start(Config::default(), slow).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(RENDER.as_bytes()).await.unwrap();
    eventually("the request to start", || server.source.started.load(Ordering::SeqCst) == 1).await;
    drop(stream);
    eventually("the request to be abandoned", || {
        server.registry.value("plumbago_api_requests_abandoned_total") == Some(1.0)
    })
    .await;
    assert_eq!(server.source.finished.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_stop_lets_open_requests_end() {
    let slow = Made { delay: Duration::from_millis(100), ..metrics() };
    let mut server = start(Config::default(), slow).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(exchange(&mut idle, VERSION).await.status, 200);
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    busy.write_all(RENDER.as_bytes()).await.unwrap();
    eventually("the request to start", || server.source.started.load(Ordering::SeqCst) == 1).await;
    server.shutdown.cancel();
    assert_eq!(read_answer(&mut busy, false).await.status, 200);
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
    (&mut server.task).await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn the_stop_does_not_wait_for_ever() {
    let slow = Made { delay: Duration::from_secs(3600), ..metrics() };
    let mut server =
        start(limited(Limits { drain: "20ms".parse().unwrap(), ..Limits::default() }), slow).await;
    let mut busy = TcpStream::connect(server.address).await.unwrap();
    busy.write_all(RENDER.as_bytes()).await.unwrap();
    eventually("the request to start", || server.source.started.load(Ordering::SeqCst) == 1).await;
    server.shutdown.cancel();
    (&mut server.task).await.unwrap();
    assert_eq!(busy.read(&mut [0]).await.unwrap_or(0), 0);
}

fn file(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

type Encrypted = tokio_rustls::client::TlsStream<TcpStream>;

fn certificate(path: &std::path::Path) -> rustls_pki_types::CertificateDer<'static> {
    use rustls_pki_types::pem::PemObject as _;

    rustls_pki_types::CertificateDer::from_pem_file(path).unwrap()
}

/// The path of a test certificate in the crate `ingest`.
fn other(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../ingest/testdata/tls").join(name)
}

/// Connects a TLS client that trusts the certificates of both crates.
async fn encrypted(server: &crate::support::Running) -> Encrypted {
    let mut roots = rustls::RootCertStore::empty();
    for path in [file("localhost.pem"), other("ca.pem")] {
        roots.add(certificate(&path)).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

#[tokio::test]
async fn certificates_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = (directory.path().join("cert"), directory.path().join("key"));
    let put = |from_cert: &std::path::Path, from_key: &std::path::Path| {
        std::fs::copy(from_cert, &cert).unwrap();
        std::fs::copy(from_key, &key).unwrap();
    };
    put(&file("localhost.pem"), &file("localhost.key"));
    let tls = TlsConfig { cert: cert.clone(), key: key.clone() };
    let server = start(Config { tls: tls.clone(), ..Config::default() }, metrics()).await;
    let shown = |stream: &Encrypted| stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
    let mut before = encrypted(&server).await;
    assert_eq!(shown(&before), certificate(&file("localhost.pem")));

    // After a failed reload the old certificate stays in use.
    put(&other("server.pem"), &file("localhost.key"));
    assert!(server.certificates.reload(&tls.files()).is_err());
    assert_eq!(shown(&encrypted(&server).await), certificate(&file("localhost.pem")));

    put(&other("server.pem"), &other("server.key"));
    server.certificates.reload(&tls.files()).unwrap();
    let mut after = encrypted(&server).await;
    assert_eq!(shown(&after), certificate(&other("server.pem")));
    for stream in [&mut before, &mut after] {
        assert_eq!(exchange(stream, VERSION).await.status, 200);
    }
}

#[tokio::test]
async fn an_encrypted_port() {
    let tls = TlsConfig { cert: file("localhost.pem"), key: file("localhost.key") };
    let server = start(Config { tls: tls.clone(), ..Config::default() }, metrics()).await;
    let mut stream = encrypted(&server).await;
    assert_eq!(exchange(&mut stream, RENDER).await.text(), "db.x.load,1700000100,1700000160,60|0.0\n");

    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(VERSION.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"HTTP"));
    eventually("the handshake to be refused", || {
        server.registry.prometheus().contains("refused_total{port=\"api\",reason=\"tls\"} 1")
    })
    .await;
}

#[tokio::test]
async fn what_keeps_a_port_closed_is_named() {
    let registry = plumbago_telemetry::Registry::new();
    let handles = plumbago_api::Handles {
        index: Arc::new(plumbago_index::Index::new(&registry)),
        answers: Default::default(),
        status: None,
        finder: None,
        activity: None,
        source: Arc::new(metrics()),
        tagging: Arc::new(plumbago_api::NoTagging),
        writer: Arc::new(plumbago_api::NoWriter),
        readiness: Arc::new(plumbago_api::NoConditions),
        metadata: Arc::new(plumbago_api::NoMetadata),
        events: Arc::new(plumbago_api::EventLog::off()),
        clock: Arc::new(plumbago_model::SystemClock),
        registry,
    };
    let taken = default().await;
    let config = Config { listen: taken.address.to_string(), ..Config::default() };
    let error = Server::bind(&config, &handles).await.unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with(&format!("cannot listen on {}: ", taken.address)), "{error}");
    assert!(error.ends_with("; stop the program that uses this port, or set another port"), "{error}");

    let listen = "127.0.0.1:0".to_owned();
    let tls = TlsConfig { cert: file("localhost.key"), key: file("localhost.key") };
    let config = Config { listen: listen.clone(), tls, ..Config::default() };
    let error = Server::bind(&config, &handles).await.unwrap_err();
    assert!(error.to_string().ends_with("localhost.key: contains no certificate"), "{error}");
    let tls = TlsConfig { cert: file("localhost.pem"), key: file("missing") };
    let config = Config { listen, tls, ..Config::default() };
    assert!(matches!(Server::bind(&config, &handles).await, Err(BindError::Tls(_))));

    let off = Config { listen: String::new(), ..Config::default() };
    assert!(Server::bind(&off, &handles).await.unwrap().is_none());
}

#[tokio::test]
async fn origins_prefix_and_compression() {
    let config = Config {
        url_prefix: "/graphite".to_owned(),
        cors_allowed_origins: vec!["https://grafana.example.org".to_owned()],
        gzip: true,
        ..Config::default()
    };
    let server = start(config, metrics()).await;
    let ask = async |method: &str, path: &str, headers: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
        server.ask(&request).await
    };
    assert_eq!(ask("GET", "/version", "").await.status, 404);
    for root in ["/graphite", "/graphite/"] {
        assert_eq!(ask("GET", root, "").await.status, 200, "{root}");
    }
    let origin = "origin: https://grafana.example.org\r\n";
    let answer = ask("GET", "/graphite/version/", origin).await;
    assert_eq!(answer.text(), "1.1.10\n");
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://grafana.example.org"));
    let other = ask("GET", "/graphite/version", "origin: https://example.com\r\n").await;
    assert_eq!(other.header("access-control-allow-origin"), None);
    let before = format!("{origin}access-control-request-method: POST\r\n");
    let before = ask("OPTIONS", "/graphite/render", &before).await;
    assert_eq!((before.status, before.header("access-control-allow-methods")), (200, Some("GET,POST")));

    let zip = "accept-encoding: gzip\r\n";
    let large = "/graphite/render?format=json&target=db.x.load";
    assert_eq!(ask("GET", large, zip).await.header("content-encoding"), Some("gzip"));
    assert_eq!(ask("GET", large, "").await.header("content-encoding"), None);
    assert_eq!(ask("GET", "/graphite/version", zip).await.header("content-encoding"), None);
}
