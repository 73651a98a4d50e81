//! Points by HTTP POST.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Daemon, config, section};
use crate::tls;
use flate2::write::GzEncoder;
use plumbago_ingest::config::TlsConfig;
use plumbago_ingest::{Config, Reject};
use plumbago_tests::http::{Response, read_response};
use plumbago_tests::wait::{HANG, eventually};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn with_http() -> Config {
    let mut config = config();
    section(&mut config, "http").listen = "127.0.0.1:0".into();
    config
}

/// Opens a connection to the listener and sends the head of a request.
fn open(daemon: &Daemon, method: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.address("http")).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    write!(stream, "{method} / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n").unwrap();
    stream
}

/// Sends a request in a thread of its own, because the daemon runs in this one.
async fn request(daemon: &Daemon, method: &'static str, headers: &str, body: &[u8]) -> Response {
    let mut stream = open(daemon, method, &format!("Content-Length: {}\r\n{headers}", body.len()));
    let body = body.to_vec();
    let exchange = move || {
        // The listener may have answered before it read everything.
        let _ = stream.write_all(&body);
        read_response(&mut stream).unwrap()
    };
    tokio::task::spawn_blocking(exchange).await.unwrap()
}

async fn post(daemon: &Daemon, headers: &str, body: &[u8]) -> (u16, Value) {
    let response = request(daemon, "POST", headers, body).await;
    (response.status, serde_json::from_str(&response.body).unwrap_or_else(|e| panic!("{e}: {response:?}")))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

const PICKLE: &[u8] = b"(l(S'pickled'\n(L1700000003L\nS'5.5'\ntta.";
const MESSAGE: &[u8] = b"\x0a\x16\x0a\x03p.b\x12\x0f\x08\x80\xe2\xcf\xaa\x06\x11\0\0\0\0\0\0\xf8\x3f";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_every_kind_are_taken() {
    let daemon = Daemon::start(&with_http());
    let body = b"a.b 1 1700000000\r\nbad line\nworse 1 x\na..c;y=1;x=2 2.5 -1";
    let answer = post(&daemon, "", body).await;
    let expected = json!({"accepted": 2, "refused": 2, "reasons": {"fields": 1, "timestamp": 1}});
    assert_eq!(answer, (200, expected));
    let one = (200, json!({"accepted": 1, "refused": 0, "reasons": {}}));
    assert_eq!(post(&daemon, "Content-Type: application/python-pickle\r\n", PICKLE).await, one);
    assert_eq!(post(&daemon, "Content-Type: application/protobuf\r\n", MESSAGE).await, one);
    let zipped = gzip(b"zipped 1 1700000000\n");
    assert_eq!(post(&daemon, "Content-Encoding: gzip\r\n", &zipped).await, one);
    let none = (200, json!({"accepted": 0, "refused": 0, "reasons": {}}));
    assert_eq!(post(&daemon, "", b"").await, none);
    let get = request(&daemon, "GET", "", b"").await;
    assert_eq!((get.status, get.body.as_str()), (200, "OK\n"));
    let stopped = daemon.stop().await;
    let names: Vec<_> = stopped.points.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["a.b", "a.c;x=2;y=1", "p.b", "pickled", "zipped"]);
    assert_eq!(stopped.stats().received(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_refused_and_counted() {
    let mut config = with_http();
    section(&mut config, "http").message_bytes_max = 100_000;
    let daemon = Daemon::start(&config);
    let bomb = gzip(&vec![b'x'; 10 << 20]);
    assert!(bomb.len() < 100_000);
    let cut = gzip(b"a 1 1700000000\n");
    let cases: [(&str, &[u8], u16, &str); 8] = [
        ("Content-Type: application/python-pickle\r\n", b"garbage", 400, "frame"),
        ("Content-Type: application/protobuf\r\n", b"garbage", 400, "frame"),
        ("Content-Encoding: gzip\r\n", b"garbage", 400, "damaged"),
        ("Content-Encoding: gzip\r\n", &cut[..cut.len() - 5], 400, "damaged"),
        ("Content-Encoding: gzip\r\n", b"", 400, "damaged"),
        ("Content-Encoding: gzip\r\n", &bomb, 413, "frame_too_large"),
        ("", &[b'x'; 100_001], 413, "frame_too_large"),
        ("Content-Encoding: zstd\r\n", b"a 1 1700000000\n", 415, "request"),
    ];
    for (headers, body, status, reason) in cases {
        let (answered, body) = post(&daemon, headers, body).await;
        assert_eq!((answered, &body["accepted"], &body["refused"]), (status, &json!(0), &json!(1)), "{body}");
        assert_eq!(body["reasons"], json!({ reason: 1 }), "{body}");
        assert!(body["error"].is_string(), "{body}");
    }
    let put = request(&daemon, "PUT", "", b"a 1 1700000000\n").await;
    assert_eq!((put.status, put.header("allow")), (405, Some("GET, HEAD, POST")));
    // Bytes that are not HTTP, and a body that ends too early.
    daemon.send(daemon.address("http"), b"line.protocol 1 1700000000\n\n");
    drop(open(&daemon, "POST", "Content-Length: 10\r\n"));
    eventually("the counts", || {
        let count = |reason| daemon.stats().rejected_for(reason);
        count(Reject::Request) == 3 && count(Reject::HalfFrame) == 1
    })
    .await;
    let stopped = daemon.stop().await;
    assert!(stopped.points.is_empty());
    assert_eq!(stopped.stats().received(), stopped.stats().rejected());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_and_many_requests_on_one_connection() {
    let daemon = Daemon::start(&with_http());
    let body: String = (0..100_000).map(|i| format!("large.metric{i} {i} 1700000000\n")).collect();
    let (status, answer) = post(&daemon, "", body.as_bytes()).await;
    assert_eq!((status, &answer["accepted"]), (200, &json!(100_000)));
    let address = daemon.address("http");
    let many = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        for i in 0..100 {
            let line = format!("many.metric{i} 1 1700000000\n");
            let length = line.len();
            write!(stream, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{line}").unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"{\"accepted\":1,\"refused\":0,\"reasons\":{}}\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                answer.push(byte[0]);
            }
        }
    };
    tokio::task::spawn_blocking(many).await.unwrap();
    let stopped = daemon.stop().await;
    assert_eq!(stopped.points.len(), 100_100);
    assert!(stopped.stats().received() == 100_100 && stopped.stats().active_connections() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_over_tls() {
    let mut config = with_http();
    section(&mut config, "http").tls =
        TlsConfig { cert: tls::text("server.pem"), key: tls::text("server.key"), client_ca: String::new() };
    let daemon = Daemon::start(&config);
    let stream = tokio::net::TcpStream::connect(daemon.address("http")).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = tls::connector(false).connect(name, stream).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 15\r\n\r\n";
    stream.write_all(format!("{head}a 1 1700000000\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"accepted\":1"), "{answer}");
    assert_eq!(daemon.stop().await.points.len(), 1);
}

/// The client disconnects while its points are on their way. The points arrive, and the balance holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_takes_nothing_back() {
    let daemon = Daemon::start(&with_http());
    daemon.sink.hold();
    let mut stream = open(&daemon, "POST", "Content-Length: 15\r\n");
    stream.write_all(b"a 1 1700000000\n").unwrap();
    eventually("a push to wait", || daemon.sink.waiting.load(Ordering::Relaxed) == 1).await;
    drop(stream);
    eventually("the connection to end", || daemon.stats().active_connections() == 0).await;
    daemon.sink.release();
    eventually("the point to be accepted", || daemon.stats().accepted() == 1).await;
    let stopped = daemon.stop().await;
    assert_eq!((stopped.points.len(), stopped.stats().received()), (1, 1));
}

/// At a stop, a complete body is accepted and answered, an incomplete one is answered with an error, and
/// silent connections end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_takes_a_body_or_says_that_it_did_not() {
    let daemon = Daemon::start(&with_http());
    daemon.sink.hold();
    let mut whole = open(&daemon, "POST", "Content-Length: 19\r\n");
    whole.write_all(b"whole 1 1700000000\n").unwrap();
    eventually("a push to wait", || daemon.sink.waiting.load(Ordering::Relaxed) == 1).await;
    let mut half = open(&daemon, "POST", "Content-Length: 100\r\n");
    half.write_all(b"half 1 1700000000\n").unwrap();
    let silent = TcpStream::connect(daemon.address("http")).unwrap();
    eventually("the connections to open", || daemon.stats().active_connections() == 3).await;
    let (address, sink) = (daemon.address("http"), Arc::clone(&daemon.sink));
    let (stopped, answers) = tokio::join!(daemon.stop(), async move {
        eventually("the listener to close", || TcpStream::connect(address).is_err()).await;
        sink.release();
        let read = move || [read_response(&mut whole).unwrap(), read_response(&mut half).unwrap()];
        tokio::task::spawn_blocking(read).await.unwrap()
    });
    drop(silent);
    assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 503]);
    assert_eq!(answers[1].header("retry-after"), Some("5"));
    assert_eq!(stopped.points.len(), 1);
    assert_eq!(stopped.stats().rejected_for(Reject::HalfFrame), 1);
    assert_eq!(stopped.stats().received(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_body_is_given_up() {
    let mut config = with_http();
    section(&mut config, "http").idle_timeout = Duration::from_millis(200);
    let daemon = Daemon::start(&config);
    let mut slow = open(&daemon, "POST", "Content-Length: 100\r\n");
    let silent = TcpStream::connect(daemon.address("http")).unwrap();
    let answer = tokio::task::spawn_blocking(move || read_response(&mut slow).unwrap()).await.unwrap();
    assert_eq!(answer.status, 408);
    eventually("the connections to end", || daemon.stats().active_connections() == 0).await;
    drop(silent);
    assert_eq!(daemon.stop().await.stats().rejected_for(Reject::HalfFrame), 1);
}
