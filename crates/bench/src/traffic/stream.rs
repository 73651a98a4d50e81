//! One direction of a TCP connection in a capture, and the requests in it.

use std::collections::BTreeMap;

use super::{Recorded, Skipped, reason, request_path};

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Largest number of bytes in packets that arrived early and wait for the packets before them.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The bytes that one side of a connection sent.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The sequence number of the next byte; `None` until a request begins.
    next: Option<u32>,
    /// The bytes of an incomplete request.
    buffer: Vec<u8>,
    /// When the first of these bytes arrived, in seconds since the epoch.
    began: f64,
    /// Packets that arrived early, by the sequence number of their first byte.
    waiting: BTreeMap<u32, Vec<u8>>,
    waiting_bytes: usize,
}

impl Stream {
    /// The number of bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.buffer.len() + self.waiting_bytes
    }

    /// Begins a new connection at this sequence number, and drops what came before.
    pub(super) fn restart(&mut self, next: u32) {
        *self = Self { next: Some(next), ..Self::default() };
    }

    /// Adds the bytes of a packet and returns the requests that they complete.
    pub(super) fn add(&mut self, number: u32, bytes: &[u8], at: f64, skipped: &mut Skipped) -> Vec<Recorded> {
        if bytes.is_empty() {
            return Vec::new();
        }
        if self.next.is_none() && begins_request(bytes) {
            self.next = Some(number);
        }
        let Some(next) = self.next else { return Vec::new() };
        if distance(next, number) > 0 {
            self.wait(number, bytes, skipped);
            return Vec::new();
        }
        self.append(number, bytes, at);
        while let Some(next) = self.next
            && let Some(number) = self.waiting.keys().copied().find(|number| distance(next, *number) <= 0)
            && let Some(bytes) = self.waiting.remove(&number)
        {
            self.waiting_bytes -= bytes.len();
            self.append(number, &bytes, at);
        }
        self.requests(at, skipped)
    }

    fn wait(&mut self, number: u32, bytes: &[u8], skipped: &mut Skipped) {
        if self.waiting_bytes + bytes.len() > WAITING_BYTES_MAX {
            *skipped.entry(reason::MISSING).or_default() += 1;
            *self = Self::default();
            return;
        }
        let before = self.waiting.insert(number, bytes.to_vec());
        self.waiting_bytes += bytes.len();
        self.waiting_bytes -= before.map_or(0, |before| before.len());
    }

    /// Appends the bytes of a packet that were not received before.
    fn append(&mut self, number: u32, bytes: &[u8], at: f64) {
        let Some(next) = self.next else { return };
        let known = distance(number, next).max(0) as usize;
        if let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) {
            if self.buffer.is_empty() {
                self.began = at;
            }
            self.buffer.extend_from_slice(new);
            self.next = Some(next.wrapping_add(new.len() as u32));
        }
    }

    /// Takes the complete requests out of the buffer.
    fn requests(&mut self, at: f64, skipped: &mut Skipped) -> Vec<Recorded> {
        let mut found = Vec::new();
        while !self.buffer.is_empty() {
            match parse(&self.buffer) {
                Parsed::Part => break,
                Parsed::Nothing => self.buffer.clear(),
                Parsed::Wrong(why) => {
                    *skipped.entry(why).or_default() += 1;
                    self.buffer.clear();
                }
                Parsed::Request { bytes, request } => {
                    self.buffer.drain(..bytes);
                    match request {
                        Ok((path, body)) => found.push(Recorded { at: self.began, path, body }),
                        Err(why) => *skipped.entry(why).or_default() += 1,
                    }
                    self.began = at;
                }
            }
        }
        found
    }
}

/// How far `to` is after `from` in TCP's sequence numbers, which wrap around at 2^32.
fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

fn begins_request(bytes: &[u8]) -> bool {
    [&b"GET "[..], b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS "]
        .iter()
        .any(|method| bytes.starts_with(method) || (bytes.len() < method.len() && method.starts_with(bytes)))
}

enum Parsed {
    /// The request is incomplete.
    Part,
    /// These bytes are not a request, but an answer or another protocol.
    Nothing,
    /// Neither the request nor what follows it can be used. The text gives the reason.
    Wrong(&'static str),
    /// A complete request: its length, and its path and body or the reason why it is left out.
    Request { bytes: usize, request: Result<Usable, &'static str> },
}

type Usable = (String, Option<(String, Vec<u8>)>);

fn parse(bytes: &[u8]) -> Parsed {
    if !begins_request(bytes) {
        return Parsed::Nothing;
    }
    let Some(end) = bytes.windows(4).take(HEAD_BYTES_MAX).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX { Parsed::Wrong(reason::LARGE) } else { Parsed::Part };
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let (mut length, mut kind) = (Some(0), String::new());
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse::<usize>().ok(),
            "content-type" => value.trim().clone_into(&mut kind),
            "transfer-encoding" => return Parsed::Wrong(reason::CHUNKED),
            _ => {}
        }
    }
    let Some(length) = length.filter(|length| *length <= BODY_BYTES_MAX) else {
        return Parsed::Wrong(reason::LARGE);
    };
    let Some(body) = bytes.get(end + 4..end + 4 + length) else { return Parsed::Part };
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = request_path(method, target, true);
    let body = (method == "POST").then(|| (kind, body.to_vec()));
    Parsed::Request { bytes: end + 4 + length, request: path.map(|path| (path, body)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET /render?target=a HTTP/1.1\r\nHost: g\r\n\r\n";
    const POST: &[u8] = b"POST /render HTTP/1.1\r\nContent-Type: x/y\r\nContent-Length: 8\r\n\r\ntarget=b";

    fn paths(found: &[Recorded]) -> Vec<&str> {
        found.iter().map(|request| request.path.as_str()).collect()
    }

    #[test]
    fn packets_in_any_order_give_their_requests_once() {
        let all = [GET, POST, GET].concat();
        // The sequence numbers wrap around in the middle of a request.
        let first = u32::MAX - 10;
        let number = |at: usize| first.wrapping_add(at as u32);
        let pieces: Vec<(usize, &[u8])> =
            all.chunks(7).enumerate().map(|(at, piece)| (at * 7, piece)).collect();
        let mut stream = Stream::default();
        stream.restart(first);
        let (mut skipped, mut found) = (Skipped::new(), Vec::new());
        for pair in pieces.chunks(2) {
            for (at, piece) in pair.iter().rev().chain(pair) {
                found.extend(stream.add(number(*at), piece, 5.0, &mut skipped));
            }
        }
        assert_eq!(paths(&found), ["/render?target=a", "/render", "/render?target=a"]);
        assert_eq!(found[1].body, Some(("x/y".to_owned(), b"target=b".to_vec())));
        assert_eq!((stream.bytes(), skipped.len()), (0, 0));
    }

    #[test]
    fn a_capture_may_begin_in_the_middle() {
        let mut stream = Stream::default();
        let mut skipped = Skipped::new();
        assert!(stream.add(1, b"rest of a body", 1.0, &mut skipped).is_empty());
        assert_eq!(paths(&stream.add(100, GET, 2.0, &mut skipped)), ["/render?target=a"]);
        let mut answers = Stream::default();
        answers.restart(5);
        assert!(answers.add(5, b"HTTP/1.1 200 OK\r\n\r\n", 1.0, &mut skipped).is_empty());
        assert_eq!((answers.bytes(), skipped.len()), (0, 0));
    }

    #[test]
    fn what_is_too_large_or_missing_is_counted() {
        let mut skipped = Skipped::new();
        let mut stream = Stream::default();
        stream.add(0, b"GET /", 1.0, &mut skipped);
        let long = "x".repeat(700 << 10);
        for at in 1..=3 {
            stream.add(at << 20, long.as_bytes(), 1.0, &mut skipped);
        }
        assert_eq!(skipped[reason::MISSING], 1);
        assert!(stream.bytes() <= WAITING_BYTES_MAX);
        let mut stream = Stream::default();
        stream.add(0, format!("GET /{long}").as_bytes(), 1.0, &mut skipped);
        let chunked = b"POST /render HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        Stream::default().add(0, chunked, 1.0, &mut skipped);
        let huge = b"POST /render HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
        Stream::default().add(0, huge, 1.0, &mut skipped);
        assert_eq!((skipped[reason::LARGE], skipped[reason::CHUNKED]), (2, 1));
    }
}
