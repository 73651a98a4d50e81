use std::sync::Mutex;
use std::time::Duration;

use plumbago_model::SystemClock;
use plumbago_telemetry::Registry;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::refused::Refused;
use super::reply::{POINT_BYTES, Reply};
use super::request::{Request, read};
use super::*;
use crate::protocol::pickle::{Kind, run};

const METRICS_MAX: usize = 5;

fn reason(frame: &[u8]) -> Refused {
    read(frame, METRICS_MAX).unwrap_err().reason
}

#[test]
fn requests_of_all_pickle_protocols() {
    let query = Ok(Request::Query("a.b".into()));
    for frame in [
        // Protocols 0, 2, and 4 with FRAME and MEMOIZE, as Python writes them.
        &b"(dp0\nVtype\np1\nVcache-query\np2\nsVmetric\np3\nVa.b\np4\ns."[..],
        b"\x80\x02}q\x00(X\x04\x00\x00\x00typeq\x01X\x0b\x00\x00\x00cache-queryq\x02X\x06\x00\x00\x00metricq\x03X\x03\x00\x00\x00a.bq\x04u.",
        b"\x80\x04\x95\x29\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x04type\x94\x8c\x0bcache-query\x94\x8c\x06metric\x94\x8c\x03a.b\x94u.",
        // Python 2 writes bytes.
        b"(dp0\nS'type'\np1\nS'cache-query'\np2\nsS'metric'\np3\nS'a.b'\np4\ns.",
        // The last of equal keys counts, and a dictionary may grow after it was put into the memo.
        b"}q\x00(U\x04typeU\x01xU\x06metricU\x03a.buh\x00U\x04typeU\x0bcache-querys.",
        b"(U\x04typeU\x0bcache-queryU\x06metricU\x03a.bd.",
    ] {
        assert_eq!(read(frame, METRICS_MAX), query, "{}", frame.escape_ascii());
    }
    let set = b"(U\x04typeU\x0cset-metadataU\x06metricU\x01mU\x03keyU\x01kU\x05valueU\x01vd.";
    let [metric, key, value] = ["m", "k", "v"].map(str::to_owned);
    assert_eq!(read(set, METRICS_MAX), Ok(Request::Set { metric, key, value }));
    assert_eq!(read(b"(U\x04typeU\x05stopsd.", METRICS_MAX), Ok(Request::Unknown("stops".to_owned())));
}

#[test]
fn bulk_requests_name_each_metric_once() {
    let bulk = |metrics: &[u8]| [b"(U\x04typeU\x10cache-query-bulkU\x07metrics", metrics, b"d."].concat();
    let names = |metrics: &[u8]| match read(&bulk(metrics), METRICS_MAX) {
        Ok(Request::Bulk(names)) => names.iter().map(|name| name.to_string()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(names(b"(U\x01aU\x01bU\x01al"), ["a", "b"]);
    assert_eq!(names(b"(U\x01aq\x00h\x00h\x00t"), ["a"]);
    assert_eq!(names(b"]"), Vec::<String>::new());
    // A long name that occurs a hundred thousand times takes the memory of one name.
    let long = [&b"X\x10\x27\x00\x00"[..], &[b'n'; 10_000], b"q\x00"].concat();
    assert_eq!(names(&[b"(", &long[..], &b"h\x00".repeat(100_000), b"l"].concat()).len(), 1);
    let many = bulk(b"(U\x01aU\x01bU\x01cU\x01dU\x01eU\x01fl");
    assert_eq!(read(&many, METRICS_MAX), Ok(Request::TooMany));
    for wrong in [&b"U\x01a"[..], b"(NU\x01al", b"(]l", b"(U\x01\xffl", b"}"] {
        assert_eq!(reason(&bulk(wrong)), Refused::Request, "{}", wrong.escape_ascii());
    }
}

#[test]
fn what_is_no_request_is_refused() {
    for frame in [
        &b""[..],
        b"garbage",
        b"}",
        b"cos\nsystem\n(S'id'\ntR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"(U\x04typed.",
        b"}U\x04type(U\x01au.",
    ] {
        assert_eq!(reason(frame), Refused::Frame, "{}", frame.escape_ascii());
    }
    for frame in [
        &b"}."[..],
        b"].",
        b"N.",
        b"U\x04type.",
        b"(U\x04typeNd.",
        b"(U\x04typeU\x0bcache-queryd.",
        b"(U\x04typeU\x0bcache-queryU\x06metricU\x01\xffd.",
        b"(U\x04typeU\x0cget-metadataU\x06metricU\x01ad.",
        b"(U\x04typeU\x0cset-metadataU\x06metricU\x01aU\x03keyU\x01bd.",
    ] {
        assert_eq!(reason(frame), Refused::Request, "{}", frame.escape_ascii());
    }
}

/// Reading the long key for each entry would keep a thread busy for minutes.
#[test]
fn a_huge_key_repeated_without_end_is_not_read_each_time() {
    let huge = [&b"S'\\\\"[..], &b"x".repeat(500_000), b"'\nq\x00N"].concat();
    let frame = [b"}(", &huge[..], &b"h\x00N".repeat(160_000), b"u."].concat();
    assert_eq!(reason(&frame), Refused::Request);
}

/// Reads a reply with the decoder of requests: its texts and numbers, with the shape left out.
fn shown(reply: Reply) -> String {
    let frame = reply.frame();
    assert_eq!(u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
    let tree = run(&frame[4..]).unwrap();
    let mut shown = String::new();
    let mut open = vec![tree.root()];
    while let Some(node) = open.pop() {
        match tree.kind(node) {
            Kind::Sequence(nodes) | Kind::Dict(nodes) => {
                let nodes: Vec<_> = nodes.collect();
                open.extend(nodes.into_iter().rev());
            }
            Kind::Atom => match tree.text(node) {
                Some(text) => shown.push_str(&format!("{} ", String::from_utf8_lossy(&text))),
                None => shown.push_str(&format!("{:?} ", tree.number(node).unwrap())),
            },
        }
    }
    shown.trim_end().to_owned()
}

#[test]
fn replies_have_all_that_was_put_in() {
    assert_eq!(shown(Reply::error("no")), "error no");
    assert_eq!(shown(Reply::texts(&[("old_value", "a"), ("new_value", "b")])), "old_value a new_value b");
    assert_eq!(shown(Reply::points(&[])), "datapoints");
    let points = [(1_700_000_000, 1.5), (u32::MAX, -0.25)];
    assert_eq!(shown(Reply::points(&points)), "datapoints 1700000000.0 1.5 4294967295.0 -0.25");
    let mut reply = Reply::bulk();
    reply.metric("é", &points[..1]);
    reply.metric("none", &[]);
    reply.end_bulk();
    assert_eq!(shown(reply), "datapointsByMetric é 1700000000.0 1.5 none");
    let many: Points = (0..2500).map(|at| (at, f64::from(at))).collect();
    assert_eq!(shown(Reply::points(&many)).split(' ').count(), 5001);
    assert!(Reply::points(&many).len() <= 64 + many.len() * POINT_BYTES);
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_refused(data in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::carbonlink(&data);
    }

    #[test]
    fn any_entries_are_a_request_or_refused(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..30)) {
        let body = pieces.concat();
        crate::fuzzing::carbonlink(&body);
        crate::fuzzing::carbonlink(&[b"}(", &body[..], b"u."].concat());
        crate::fuzzing::carbonlink(&[b"}(U\x04typeU\x10cache-query-bulkU\x07metrics(", &body[..], b"lu."].concat());
    }
}

const PIECES: [&[u8]; 18] = [
    b"(",
    b"]",
    b"}",
    b"N",
    b"t",
    b"l",
    b"d",
    b"a",
    b"e",
    b"s",
    b"u",
    b"q\x00",
    b"h\x00",
    b"\x94",
    b"U\x04type",
    b"U\x0bcache-query",
    b"S'metric'\n",
    b"Va\n",
];

/// Answers `slow` only after a signal, and every other metric at once.
#[derive(Default)]
struct Stub {
    go_on: Notify,
    changed: Mutex<Vec<String>>,
}

#[boxed_futures]
impl Cache for Stub {
    async fn points(&self, names: &[Arc<str>], points_max: usize) -> Result<Option<Vec<Points>>, CacheError> {
        if &*names[0] == "slow" {
            self.go_on.notified().await;
        }
        let points = |name: &Arc<str>| (0..name.len() as u32).map(|at| (at, 1.0)).collect::<Points>();
        let all: Vec<Points> = names.iter().map(points).collect();
        Ok(Some(all).filter(|all| all.iter().map(Vec::len).sum::<usize>() <= points_max))
    }

    async fn metadata(&self, metric: &str, key: &str) -> Result<String, CacheError> {
        Ok(format!("{key} of {metric}"))
    }

    async fn set_metadata(&self, _: &str, _: &str, value: &str) -> Result<String, CacheError> {
        self.changed.lock().unwrap().push(value.to_owned());
        Err(CacheError("not now".to_owned()))
    }
}

struct Port {
    stub: Arc<Stub>,
    registry: Registry,
    address: std::net::SocketAddr,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

fn port(change: impl FnOnce(&mut Config)) -> Port {
    let mut config = Config { listen: "127.0.0.1:0".to_owned(), ..Config::default() };
    change(&mut config);
    let (stub, registry, stop) = (Arc::new(Stub::default()), Registry::new(), CancellationToken::new());
    let cache = Arc::clone(&stub) as Arc<dyn Cache>;
    let bound = Carbonlink::bind(&config, cache, Arc::new(SystemClock), &registry).unwrap().unwrap();
    let address = bound.address();
    Port { stub, registry, address, running: tokio::spawn(bound.run(stop.clone())), stop }
}

fn query(metric: &str) -> Vec<u8> {
    let mut body = b"(U\x04typeU\x0bcache-queryU\x06metricX".to_vec();
    body.extend((metric.len() as u32).to_le_bytes());
    body.extend([metric.as_bytes(), b"d."].concat());
    framed(&body)
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes(), body].concat()
}

/// The next reply; `None` if the connection was closed.
async fn reply(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let length = stream.read_u32().await.ok()?;
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}

fn refused(port: &Port, reason: &str) -> bool {
    let line = format!("plumbago_carbonlink_refused_total{{reason=\"{reason}\"}} ");
    port.registry.prometheus().lines().any(|text| text.strip_prefix(&line).is_some_and(|n| n != "0"))
}

#[tokio::test]
async fn a_slow_lookup_delays_no_other_connection() {
    let port = port(|_| {});
    let mut slow = TcpStream::connect(port.address).await.unwrap();
    slow.write_all(&query("slow")).await.unwrap();
    let mut other = TcpStream::connect(port.address).await.unwrap();
    for _ in 0..3 {
        other.write_all(&query("ab")).await.unwrap();
        assert_eq!(reply(&mut other).await.unwrap(), Reply::points(&[(0, 1.0), (1, 1.0)]).frame()[4..]);
    }
    port.stub.go_on.notify_one();
    assert!(reply(&mut slow).await.is_some());
    port.stop.cancel();
    port.running.await.unwrap();
    assert!(reply(&mut other).await.is_none());
}

#[tokio::test]
async fn errors_are_replies_and_the_connection_stays() {
    let port = port(|config| (config.memory_bytes, config.metrics_max) = (4 << 20, 1));
    let mut stream = TcpStream::connect(port.address).await.unwrap();
    let set = b"(U\x04typeU\x0cset-metadataU\x06metricU\x01mU\x03keyU\x01kU\x05valueU\x01vd.";
    let many = b"(U\x04typeU\x10cache-query-bulkU\x07metrics(U\x01aU\x01bld.";
    // One point for each byte of the name: more than half of the memory.
    let large = query(&"x".repeat(150_000));
    for (request, text, reason) in [
        (framed(b"(U\x04typeU\x01xd."), "Invalid request type \"x\"", "type"),
        (framed(set), "not now", "failed"),
        (framed(many), "more than 1 metrics in one request (carbonlink.metrics_max)", "metrics"),
        (large, "the reply would have more than 2097152 bytes (half of carbonlink.memory_bytes)", "reply"),
    ] {
        stream.write_all(&request).await.unwrap();
        assert_eq!(reply(&mut stream).await.unwrap(), Reply::error(text).frame()[4..], "{text}");
        assert!(refused(&port, reason), "{reason}");
    }
    assert_eq!(*port.stub.changed.lock().unwrap(), ["v"]);
}

#[tokio::test]
async fn damaged_frames_close_the_connection() {
    let port = port(|config| config.idle_timeout = Duration::from_millis(200));
    for (bytes, reason) in [
        (framed(b"garbage"), "frame"),
        (framed(b"}."), "request"),
        (framed(b""), "frame"),
        (vec![0xff; 8], "frame_too_large"),
    ] {
        let mut stream = TcpStream::connect(port.address).await.unwrap();
        stream.write_all(&query("a")).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        assert!(reply(&mut stream).await.is_some() && reply(&mut stream).await.is_none(), "{reason}");
        assert!(refused(&port, reason), "{reason}");
    }
    let mut half = TcpStream::connect(port.address).await.unwrap();
    half.write_all(&query("a")[..9]).await.unwrap();
    half.shutdown().await.unwrap();
    assert!(reply(&mut half).await.is_none() && refused(&port, "half_frame"));
    let mut silent = TcpStream::connect(port.address).await.unwrap();
    assert!(reply(&mut silent).await.is_none(), "the idle timeout");
}

#[tokio::test]
async fn no_more_connections_than_permitted() {
    let port = port(|config| config.connections_max = 1);
    let mut first = TcpStream::connect(port.address).await.unwrap();
    first.write_all(&query("a")).await.unwrap();
    assert!(reply(&mut first).await.is_some());
    let mut second = TcpStream::connect(port.address).await.unwrap();
    second.write_all(&query("a")).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(100), reply(&mut second)).await;
    assert!(early.is_err());
    drop(first);
    assert!(reply(&mut second).await.is_some());
}
