//! Sends chunks over many connections.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::workload::{Chunk, Chunks};

/// Guard against a server that neither reads nor closes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Sends each share over a connection of its own, at most `rate` lines a second altogether (0 for no
/// limit), adding to `sent`. Returns when the server has read everything and closed.
pub fn send(address: &str, shares: Vec<Lines>, rate: u64, sent: &AtomicU64) -> io::Result<()> {
    let per_connection = rate as f64 / shares.len().max(1) as f64;
    thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || send_one(address, share, per_connection, sent)))
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("a sender panicked")),
        })
    })
}

/// The chunks of one connection: made before the clock starts, or while sending when they would not
/// fit in memory.
#[derive(Debug)]
pub enum Lines {
    /// Ready.
    Made(Vec<Chunk>),
    /// Made while sending.
    Lazy(Box<Chunks>),
}

impl Lines {
    fn into_chunks(self) -> Box<dyn Iterator<Item = Chunk>> {
        match self {
            Self::Made(chunks) => Box::new(chunks.into_iter()),
            Self::Lazy(chunks) => chunks,
        }
    }
}

fn send_one(address: &str, lines: Lines, rate: f64, sent: &AtomicU64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
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
    drain(&mut stream)
}

/// Reads until the server closes; a reset says the same.
fn drain(stream: &mut TcpStream) -> io::Result<()> {
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
