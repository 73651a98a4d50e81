//! Sends points over several TCP connections.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::http::Requests;
use super::protocol::Protocol;
use super::workload::{Chunk, Chunks};
use crate::BenchError;

/// Ends a wait for a server that neither reads nor closes the connection.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The chunks of one connection.
#[derive(Debug)]
pub(crate) enum Lines {
    /// Generated before the clock starts.
    Ready(Vec<Chunk>),
    /// Generated while sending, because they would not fit into memory.
    OnTheFly(Box<Chunks>),
}

impl Lines {
    fn into_chunks(self) -> Box<dyn Iterator<Item = Chunk>> {
        match self {
            Self::Ready(chunks) => Box::new(chunks.into_iter()),
            Self::OnTheFly(chunks) => chunks,
        }
    }
}

/// Where and how to send points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint<'a> {
    /// `host:port`.
    pub(crate) address: &'a str,
    pub(crate) protocol: Protocol,
    /// Largest number of points per second, over all connections; 0 for no limit.
    pub(crate) rate: u64,
}

/// Sends each share over its own connection, and adds the number of points sent to `sent`. Returns once the
/// server has read everything and closed the connections, or has answered the last request.
pub(crate) fn send(to: Endpoint<'_>, shares: Vec<Lines>, sent: &AtomicU64) -> Result<(), BenchError> {
    let rate = to.rate as f64 / shares.len().max(1) as f64;
    let result = thread::scope(|scope| {
        let threads: Vec<_> =
            shares.into_iter().map(|share| scope.spawn(move || send_one(to, share, rate, sent))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("a sending thread panicked")),
        })
    });
    result.map_err(BenchError::io(format!("send points to {}", to.address)))
}

fn send_one(to: Endpoint<'_>, lines: Lines, rate: f64, sent: &AtomicU64) -> io::Result<()> {
    let mut stream = TcpStream::connect(to.address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    if let Some(path) = to.protocol.path() {
        let mut requests = Requests::new(stream, to.address, path);
        return at_rate(lines, rate, sent, |bytes| requests.post(bytes));
    }
    at_rate(lines, rate, sent, |bytes| stream.write_all(bytes))?;
    stream.shutdown(Shutdown::Write)?;
    read_to_end(&mut stream)
}

fn at_rate(
    lines: Lines,
    rate: f64,
    sent: &AtomicU64,
    mut send: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let started = Instant::now();
    let mut count = 0;
    for chunk in lines.into_chunks() {
        if rate > 0.0 {
            let due = Duration::from_secs_f64(count as f64 / rate);
            thread::sleep(due.saturating_sub(started.elapsed()));
        }
        send(&chunk.bytes)?;
        count += chunk.points;
        sent.fetch_add(chunk.points, Ordering::Relaxed);
    }
    Ok(())
}

/// Waits until the server closes or resets the connection. Anything that it sends before that is an error
/// message.
fn read_to_end(stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    match stream.read(&mut buffer) {
        Ok(0) => Ok(()),
        Ok(length) => {
            let text = String::from_utf8_lossy(&buffer[..length]);
            let first = text.lines().next().unwrap_or_default();
            Err(io::Error::other(format!("the server refuses points: {first}")))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error),
    }
}
