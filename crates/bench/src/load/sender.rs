//! Sends lines over several TCP connections.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::workload::{Chunk, Chunks};
use crate::BenchError;

/// Guard against a server that neither reads nor closes.
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

/// Sends each share over its own connection, and adds the lines sent to `sent`. All connections together send
/// at most `rate` lines per second (0: no limit). Returns once the server has read everything and closed.
pub(crate) fn send(address: &str, shares: Vec<Lines>, rate: u64, sent: &AtomicU64) -> Result<(), BenchError> {
    let rate = rate as f64 / shares.len().max(1) as f64;
    let result = thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || send_one(address, share, rate, sent)))
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("a sending thread panicked")),
        })
    });
    result.map_err(BenchError::io(format!("send lines to {address}")))
}

fn send_one(address: &str, lines: Lines, rate: f64, sent: &AtomicU64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let started = Instant::now();
    let mut count = 0;
    for chunk in lines.into_chunks() {
        if rate > 0.0 {
            let due = Duration::from_secs_f64(count as f64 / rate);
            thread::sleep(due.saturating_sub(started.elapsed()));
        }
        stream.write_all(&chunk.bytes)?;
        count += chunk.lines;
        sent.fetch_add(chunk.lines, Ordering::Relaxed);
    }
    stream.shutdown(Shutdown::Write)?;
    read_to_end(&mut stream)
}

/// Reads until the server closes the connection, be it with a reset.
fn read_to_end(stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
