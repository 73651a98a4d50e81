//! A running server with a real index and generated points, and a simple HTTP client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_api::{
    Config, EventLog, Handles, Metadata, MetadataError, NoConditions, NoTagging, NoWriter, Readiness, Server,
};
use plumbago_boxed_futures::boxed_futures;
use plumbago_index::Index;
use plumbago_model::{Aggregation, ManualClock, MetricConfig, Series};
use plumbago_store::{FetchError, FetchRequest, Provenance, SeriesSource};
use plumbago_telemetry::Registry;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// The current time of the server: 2023-11-14 22:15:00 UTC, a whole minute.
pub(crate) const NOW: i64 = 1_700_000_100;
/// Seconds between points.
pub(crate) const STEP: u32 = 60;

/// A source of generated points. It rounds time ranges to whole steps as Graphite does.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The metrics, each with a function from time to value.
    pub(crate) values: HashMap<String, fn(i64) -> f64>,
    /// How long each read takes.
    pub(crate) delay: Duration,
    /// The number of reads that have begun.
    pub(crate) started: AtomicUsize,
    /// The number of reads that have ended.
    pub(crate) finished: AtomicUsize,
    /// The number of metrics in all reads so far.
    pub(crate) read: AtomicUsize,
    /// Whether every read fails.
    pub(crate) fails: bool,
    /// The changes of settings so far, each as `metric key=value`.
    pub(crate) changes: Mutex<Vec<String>>,
}

#[boxed_futures]
impl SeriesSource for Made {
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError> {
        self.started.fetch_add(1, Ordering::SeqCst);
        self.read.fetch_add(request.names.len(), Ordering::SeqCst);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        self.finished.fetch_add(1, Ordering::SeqCst);
        if self.fails {
            return Err(FetchError::Stopping);
        }
        let step = i64::from(STEP);
        let until = request.until.min(request.now);
        let (start, end) =
            (request.from - request.from.rem_euclid(step) + step, until - until.rem_euclid(step) + step);
        let series = |name: &Arc<str>| {
            let value = self.values.get(&**name)?;
            let values = (start..end.max(start + step)).step_by(STEP as usize).map(value).collect();
            Some(Series { name: Arc::clone(name), start, step: STEP, values })
        };
        Ok(request.names.iter().filter_map(series).collect())
    }

    async fn explain(&self, request: &FetchRequest) -> Result<Vec<Provenance>, FetchError> {
        let provenance = |series: Series| Provenance {
            name: series.name,
            config: Arc::new(MetricConfig {
                retention: "60s:1d,5m:30d".parse().unwrap(),
                aggregation: Aggregation::Sum,
                x_files_factor: 0.25,
            }),
            stage: 0,
            slots: series.values.len(),
            from_head: series.values.iter().filter(|value| !value.is_nan()).count(),
            from_spool: 0,
            from_peers: 0,
            from_store: 0,
            hidden: 0,
        };
        Ok(self.fetch(request).await?.into_iter().map(provenance).collect())
    }
}

#[boxed_futures]
impl Metadata for Made {
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError> {
        let config = Arc::new(MetricConfig {
            retention: "60s:1d,5m:30d".parse().unwrap(),
            aggregation: Aggregation::Sum,
            x_files_factor: 0.25,
        });
        let known = |name: &&str| self.values.contains_key(*name).then(|| Arc::clone(&config));
        Ok(names.iter().map(known).collect())
    }

    async fn settings(&self, names: &[&str], key: &str) -> Vec<Result<String, MetadataError>> {
        let value = |name: &&str| match self.values.contains_key(*name) {
            true => Ok(format!("{key} of {name}")),
            false => Err(MetadataError(format!("no {name}"))),
        };
        names.iter().map(value).collect()
    }

    async fn set(&self, name: &str, key: &str, value: &str) -> Result<String, MetadataError> {
        self.changes.lock().unwrap().push(format!("{name} {key}={value}"));
        self.settings(&[name], key).await.remove(0)
    }
}

/// A running server, which stops when dropped.
pub(crate) struct Running {
    pub(crate) _directory: tempfile::TempDir,
    pub(crate) certificates: Arc<plumbago_api::Certificates>,
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) registry: Registry,
    pub(crate) source: Arc<Made>,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// The metrics that most tests use.
pub(crate) fn metrics() -> Made {
    let ramp = |time: i64| (time - NOW) as f64 / 60.0;
    let gaps = |time: i64| if (time / 60) % 2 == 0 { f64::NAN } else { 0.1 };
    let mut values: HashMap<String, fn(i64) -> f64> = HashMap::new();
    for name in ["web.a.cpu.user", "web.b.cpu.user", "web.b.cpu", "db.x.load", "cpu;dc=a"] {
        values.insert(name.to_owned(), ramp);
    }
    values.insert("web.a.cpu.idle".to_owned(), gaps);
    values.insert("odd.none".to_owned(), |_| f64::NAN);
    values.insert("odd.inf".to_owned(), |time| if (time / 60) % 2 == 0 { f64::INFINITY } else { -1e-7 });
    values.insert("odd.\u{fc}nic\u{f6}de".to_owned(), |_| 1e16);
    values.insert("odd.100%25+x".to_owned(), |_| 1.0);
    Made { values, ..Made::default() }
}

pub(crate) async fn start(config: Config, source: Made) -> Running {
    start_in(config, source, Arc::new(NoConditions)).await
}

/// Starts a server whose process has these conditions.
pub(crate) async fn start_in(config: Config, source: Made, readiness: Arc<dyn Readiness>) -> Running {
    let registry = Registry::new();
    let index = Arc::new(Index::new(&registry));
    index.insert(source.values.keys().map(String::as_str));
    let source = Arc::new(source);
    let directory = tempfile::tempdir().unwrap();
    let handles = Handles {
        index,
        finder: None,
        activity: None,
        source: Arc::clone(&source) as Arc<dyn SeriesSource>,
        tagging: Arc::new(NoTagging),
        writer: Arc::new(NoWriter),
        readiness,
        metadata: Arc::clone(&source) as Arc<dyn Metadata>,
        events: Arc::new(match config.events_bytes.bytes() {
            0 => EventLog::off(),
            bytes_max => EventLog::open(&directory.path().join("events"), bytes_max).unwrap(),
        }),
        clock: Arc::new(ManualClock::at(NOW)),
        registry: registry.clone(),
        answers: Default::default(),
        status: None,
    };
    let config = Config { listen: "127.0.0.1:0".to_owned(), ..config };
    let server = Server::bind(&config, &handles).await.unwrap().unwrap();
    let (address, certificates) = (server.address(), server.certificates());
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(server.run(shutdown.clone()));
    Running { _directory: directory, certificates, address, shutdown, registry, source, task }
}

pub(crate) async fn default() -> Running {
    start(Config::default(), metrics()).await
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl Running {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
    }

    pub(crate) async fn post(&self, path: &str, kind: &str, body: &str) -> Answer {
        let length = body.len();
        self.ask(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    pub(crate) async fn ask(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        exchange(&mut stream, request).await
    }
}

/// Sends a request and reads its response.
pub(crate) async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    read_answer(stream, request.starts_with("HEAD")).await
}

pub(crate) async fn read_answer(stream: &mut (impl AsyncRead + Unpin), is_head: bool) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let status = head[9..12].parse().unwrap();
    let mut answer = Answer { status, head, body: Vec::new() };
    if is_head || status == 204 {
        return answer;
    }
    if let Some(length) = answer.header("content-length") {
        answer.body.resize(length.parse().unwrap(), 0);
        stream.read_exact(&mut answer.body).await.unwrap();
    } else if answer.header("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = chunk(stream).await {
            answer.body.extend(chunk);
        }
    }
    answer
}

async fn chunk(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.unwrap());
    }
    let length = std::str::from_utf8(&line).unwrap().trim();
    let mut chunk = vec![0; usize::from_str_radix(length, 16).unwrap() + 2];
    stream.read_exact(&mut chunk).await.unwrap();
    chunk.truncate(chunk.len() - 2);
    (!chunk.is_empty()).then_some(chunk)
}
