//! Senders of our own, for what the real ones cannot be told to send.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

/// One point as a test knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The metric.
    pub name: String,
    /// Seconds since the epoch.
    pub timestamp: i64,
    /// The value.
    pub value: f64,
}

impl Point {
    /// A point.
    pub fn new(name: impl Into<String>, timestamp: i64, value: f64) -> Self {
        Self { name: name.into(), timestamp, value }
    }
}

/// The line protocol's text of points.
pub fn lines<'a>(points: impl IntoIterator<Item = &'a Point>) -> String {
    points.into_iter().map(|p| format!("{} {} {}\n", p.name, p.value, p.timestamp)).collect()
}

/// A kept-open line connection.
#[derive(Debug)]
pub struct LineSender(TcpStream);

impl LineSender {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Sends points; panics when the connection is gone.
    pub fn send(&mut self, points: &[Point]) {
        self.try_bytes(lines(points).as_bytes()).unwrap();
    }

    /// Sends bytes as they are; an error when the connection is gone.
    pub fn try_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes)
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        &self.0
    }
}

/// A length-prefixed frame, as the pickle and protobuf listeners take.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}
