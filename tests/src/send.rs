//! Simple senders, for input that real senders never send.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

/// A point to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Name of the metric.
    pub name: String,
    /// Seconds since the epoch.
    pub timestamp: i64,
    /// The value.
    pub value: f64,
}

impl Point {
    /// Creates a point.
    pub fn new(name: impl Into<String>, timestamp: i64, value: f64) -> Self {
        Self { name: name.into(), timestamp, value }
    }
}

/// Formats points in the line protocol.
pub fn lines<'a>(points: impl IntoIterator<Item = &'a Point>) -> String {
    points.into_iter().map(|p| format!("{} {} {}\n", p.name, p.value, p.timestamp)).collect()
}

/// An open connection of the line protocol.
#[derive(Debug)]
pub struct LineSender(TcpStream);

impl LineSender {
    /// Opens the connection.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Sends points. Panics if the connection is closed.
    pub fn send(&mut self, points: &[Point]) {
        self.try_bytes(lines(points).as_bytes()).unwrap();
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn try_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes)
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.0
    }
}

/// Puts the length in front of a payload, as the pickle and protobuf listeners expect.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}
