//! Measures requests over one connection to a server in this process, with a million names and generated
//! points. Prints the median and the 99th percentile of the time from the request to the last byte of the
//! response. An argument selects the measurements whose names contain it.

#![allow(clippy::unwrap_used, reason = "a measurement may stop where something is odd")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plumbago_api::{Config, EventLog, Handles, NoConditions, NoMetadata, NoTagging, NoWriter, Server};
use plumbago_boxed_futures::boxed_futures;
use plumbago_index::Index;
use plumbago_model::{Series, SystemClock};
use plumbago_store::{FetchError, FetchRequest, Provenance, SeriesSource};
use plumbago_telemetry::Registry;
use tokio_util::sync::CancellationToken;

/// A source that has one value per minute for every metric.
#[derive(Debug)]
struct Minutes;

#[boxed_futures]
impl SeriesSource for Minutes {
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError> {
        let start = request.from - request.from.rem_euclid(60) + 60;
        let count = usize::try_from((request.until - request.from) / 60).unwrap();
        let series = |(number, name): (usize, &Arc<str>)| Series {
            name: Arc::clone(name),
            start,
            step: 60,
            values: (0..count).map(|i| ((number * 31 + i * 17) % 10_007) as f64 / 100.0).collect(),
        };
        Ok(request.names.iter().enumerate().map(series).collect())
    }

    async fn explain(&self, _: &FetchRequest) -> Result<Vec<Provenance>, FetchError> {
        Ok(Vec::new())
    }
}

/// A million names: 10 racks of 1,000 hosts with 100 metrics each. 23 metrics of each host begin with `x`.
fn names() -> Vec<String> {
    let metric = |number| if number < 23 { format!("x{number}") } else { format!("m{number}") };
    let host = |rack, host| (0..100).map(move |m| format!("r{rack}.host{host:04}.{}", metric(m)));
    (0..10).flat_map(|rack| (0..1000).flat_map(move |number| host(rack, number))).collect()
}

/// Starts the server on a thread of its own and returns its address.
fn serve() -> std::net::SocketAddr {
    let registry = Registry::new();
    let index = Arc::new(Index::new(&registry));
    index.insert(names().iter().map(String::as_str));
    let handles = Handles {
        index,
        finder: None,
        activity: None,
        source: Arc::new(Minutes),
        tagging: Arc::new(NoTagging),
        writer: Arc::new(NoWriter),
        readiness: Arc::new(NoConditions),
        metadata: Arc::new(NoMetadata),
        events: Arc::new(EventLog::off()),
        clock: Arc::new(SystemClock),
        registry,
        answers: Default::default(),
        status: None,
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let config = Config { listen: "127.0.0.1:0".to_owned(), ..Config::default() };
            let server = Server::bind(&config, &handles).await.unwrap().unwrap();
            sender.send(server.address()).unwrap();
            server.run(CancellationToken::new()).await;
        });
    });
    receiver.recv().unwrap()
}

/// Sends a request, reads the whole response and returns the length of its body in bytes.
fn ask(stream: &mut BufReader<TcpStream>, path: &str) -> usize {
    write!(stream.get_mut(), "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let (mut line, mut length) = (String::new(), None);
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = Some(value.trim().parse().unwrap());
        }
    }
    let mut body = Vec::new();
    if let Some(length) = length {
        body.resize(length, 0);
        stream.read_exact(&mut body).unwrap();
        return length;
    }
    let mut total = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        let chunk = usize::from_str_radix(line.trim(), 16).unwrap();
        body.resize(body.len().max(chunk + 2), 0);
        stream.read_exact(&mut body[..chunk + 2]).unwrap();
        if chunk == 0 {
            return total;
        }
        total += chunk;
    }
}

fn main() {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let address = serve();
    let mut stream = BufReader::with_capacity(256 << 10, TcpStream::connect(address).unwrap());
    stream.get_ref().set_nodelay(true).unwrap();
    println!("{:<44} {:>12} {:>10} {:>10}", "", "bytes", "median", "p99");
    for (what, path, times) in [
        ("version", "/version", 5000),
        ("render one metric, 24 h at 1 min", "/render?target=r1.host0001.x1&format=json", 5000),
        ("find exact", "/metrics/find?query=r1.host0001.x1", 5000),
        ("find children of one directory (100)", "/metrics/find?query=r1.host0001.*", 5000),
        ("find 10,000 (json)", "/metrics/find?query=r*.host*.x1&format=json", 200),
        ("find 230,000 (json)", "/metrics/find?query=r*.host*.x*&format=json", 20),
        ("find 230,000 (treejson)", "/metrics/find?query=r*.host*.x*", 20),
        ("expand 230,000", "/metrics/expand?query=r*.host*.x*", 20),
        ("index.json, 1,000,000", "/metrics/index.json", 5),
        ("render 1,000 x 24 h at 1 min", "/render?target=r1.host*.x1&format=json", 20),
    ] {
        if !what.contains(&only) {
            continue;
        }
        let mut bytes = 0;
        let mut times: Vec<Duration> = (0..times)
            .map(|_| {
                let start = Instant::now();
                bytes = ask(&mut stream, path);
                start.elapsed()
            })
            .collect();
        times.sort();
        let ms = |at: usize| format!("{:.3} ms", times[at].as_secs_f64() * 1000.0);
        println!("{what:<44} {bytes:>12} {:>10} {:>10}", ms(times.len() / 2), ms(times.len() * 99 / 100));
    }
}
