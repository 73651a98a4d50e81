//! Sends requests on a connection that stays open, and measures how long they take.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use plumbago_tests::wait::HANG;
use serde_json::Value;

/// Minimum number of requests that are timed, however long they take.
const REQUESTS_MIN: usize = 5;

/// A connection to the API of a server.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        Self { stream: BufReader::new(stream), address }
    }

    /// Posts a body. Returns the status and the body of the answer.
    pub(super) fn post(&mut self, path: &str, body: &str) -> (u16, Vec<u8>) {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        // In one write, so that no packet waits for the acknowledgement of another.
        request.push_str(body);
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        self.answer()
    }

    /// Posts a query that has to succeed.
    pub(super) fn ask(&mut self, path: &str, query: &Value) -> Value {
        let (status, body) = self.post(path, &query.to_string());
        let text = String::from_utf8_lossy(&body);
        assert_eq!(status, 200, "{}: {query}: {text}", self.address);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn answer(&mut self) -> (u16, Vec<u8>) {
        let first = self.line();
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap(),
                "transfer-encoding" => is_chunked = value.trim().eq_ignore_ascii_case("chunked"),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        match is_chunked {
            true => body = self.chunks(),
            false => self.stream.read_exact(&mut body).unwrap(),
        }
        (status.unwrap_or_else(|| panic!("no status in {first:?}")), body)
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("no size in {line:?}"));
            let from = body.len();
            body.resize(from + size, 0);
            self.stream.read_exact(&mut body[from..]).unwrap();
            // The end of the chunk, or the blank line after the last one.
            self.line();
            if size == 0 {
                return body;
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// Limits on the repetition of a request: the number of times and the total time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeat {
    pub(super) count: usize,
    pub(super) limit: Duration,
}

/// Durations of the requests, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) requests: usize,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// Times a query on one connection, after half as many requests to warm up: Java compiles code that runs
/// often.
pub(super) fn time(address: SocketAddr, path: &str, query: &Value, repeat: Repeat) -> Times {
    let mut client = Client::connect(address);
    let body = query.to_string();
    let mut once = || {
        let asked = Instant::now();
        let (status, _) = client.post(path, &body);
        assert_eq!(status, 200, "{body}");
        asked.elapsed().as_secs_f64() * 1e3
    };
    repeated(Repeat { count: repeat.count / 2, limit: repeat.limit / 2 }, &mut once);
    let mut times = repeated(repeat, &mut once);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1];
    Times { requests: times.len(), p50: at(0.5), p99: at(0.99) }
}

fn repeated(repeat: Repeat, once: &mut impl FnMut() -> f64) -> Vec<f64> {
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < REQUESTS_MIN || times.len() < repeat.count && started.elapsed() < repeat.limit {
        times.push(once());
    }
    times
}
