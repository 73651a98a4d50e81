//! The UDP listener.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use std::time::Duration;

use plumbago_telemetry::Counter;
use socket2::{Domain, Socket, Type};
use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Shared;
use crate::protocol::{Intake, line};
use crate::stats::Listener;

/// Larger than any datagram. A truncated datagram could end in the middle of a line, which would be a wrong
/// point.
const DATAGRAM_BYTES: usize = 64 << 10;

/// A batch is pushed when it reaches this size, or when no more datagrams are pending.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_DATAGRAMS: usize = 1024;

/// Number of batches read at shutdown while senders keep sending. It is more than the kernel's buffer
/// holds.
const LAST_BATCHES: usize = 64;

/// How often the number of datagrams dropped by the kernel is read.
const DROPS_EVERY: Duration = Duration::from_secs(10);

/// A bound socket that is not read yet.
pub(crate) struct Bound {
    pub(crate) socket: StdSocket,
    pub(crate) line_bytes_max: usize,
    pub(crate) kernel_drops: Counter,
}

/// Binds an address and asks for a receive buffer.
pub(crate) fn bind(address: SocketAddr, receive_buffer_bytes: usize) -> io::Result<StdSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    // The kernel may grant less without an error. It reports twice the granted size.
    let _ = socket.set_recv_buffer_size(receive_buffer_bytes);
    let granted = socket.recv_buffer_size()? / 2;
    if granted < receive_buffer_bytes {
        info!(
            granted_bytes = granted,
            asked_bytes = receive_buffer_bytes,
            "the kernel granted a smaller receive buffer to the udp listener; raise net.core.rmem_max, or bursts of datagrams may be dropped"
        );
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Reads until `stop`, then reads what the kernel has already received.
pub(crate) async fn run(bound: Bound, shared: Arc<Shared>, stop: CancellationToken) -> io::Result<()> {
    let inode = inode(&bound.socket);
    let mut reader = Reader {
        socket: UdpSocket::from_std(bound.socket)?,
        line_bytes_max: bound.line_bytes_max,
        buffer: vec![0; DATAGRAM_BYTES],
        shared,
    };
    let mut drops = Drops { inode, counter: bound.kernel_drops, seen: 0 };
    let mut ask = tokio::time::interval(DROPS_EVERY);
    ask.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            _ = ask.tick() => drops.look(),
            ready = reader.socket.readable() => {
                ready?;
                reader.batch();
            }
        }
    }
    for _ in 0..LAST_BATCHES {
        if !reader.batch() {
            break;
        }
    }
    drops.look();
    Ok(())
}

struct Reader {
    socket: UdpSocket,
    line_bytes_max: usize,
    buffer: Vec<u8>,
    shared: Arc<Shared>,
}

impl Reader {
    /// Reads pending datagrams, up to a batch, and pushes their points. Returns false if none was pending.
    fn batch(&mut self) -> bool {
        let stats = self.shared.stats.of(Listener::UDP);
        let relabel = self.shared.rules.current();
        let context = self.shared.context(&relabel);
        let mut intake = Intake::default();
        let (mut bytes, mut datagrams) = (0, 0);
        while bytes < BATCH_BYTES && datagrams < BATCH_DATAGRAMS {
            match self.socket.try_recv_from(&mut self.buffer) {
                Ok((length, origin)) => {
                    bytes += length;
                    datagrams += 1;
                    intake.tally.origin = Some(origin);
                    line::datagram(&self.buffer[..length], self.line_bytes_max, &context, &mut intake);
                }
                // The error was caused by an earlier datagram. The next ones can be read.
                Err(error) if error.kind() != ErrorKind::WouldBlock => datagrams += 1,
                Err(_) => break,
            }
        }
        let now_ms = self.shared.clock.now_ms();
        stats.parsed(bytes, &mut intake, now_ms);
        let points = intake.points.len();
        if points > 0 {
            match self.shared.sink.try_push(intake.points) {
                Ok(()) => stats.pushed(points),
                Err(batch) => stats.dropped(batch.len(), now_ms),
            }
        }
        datagrams > 0
    }
}

/// Counts the datagrams that the kernel dropped because the socket was not read fast enough. The number is
/// available only in `/proc`.
struct Drops {
    inode: Option<u64>,
    counter: Counter,
    seen: u64,
}

impl Drops {
    fn look(&mut self) {
        let Some(inode) = self.inode else { return };
        let tables = ["/proc/net/udp", "/proc/net/udp6"].map(std::fs::read_to_string);
        let dropped = tables.iter().flatten().find_map(|table| drops_of(table, inode)).unwrap_or(0);
        if dropped > self.seen {
            warn!(
                dropped = dropped - self.seen,
                "the kernel dropped datagrams before they were read; raise ingest.udp.receive_buffer_bytes"
            );
            self.counter.add(dropped - self.seen);
            self.seen = dropped;
        }
    }
}

/// The number of drops of a socket: the last column of its line in `/proc/net/udp`.
fn drops_of(table: &str, inode: u64) -> Option<u64> {
    let inode = inode.to_string();
    let line = table.lines().skip(1).find(|line| line.split_whitespace().nth(9) == Some(&inode))?;
    line.split_whitespace().last()?.parse().ok()
}

fn inode(socket: &StdSocket) -> Option<u64> {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;

    let descriptor = OwnedFd::from(socket.try_clone().ok()?);
    Some(std::fs::File::from(descriptor).metadata().ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_drops_of_a_socket() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             1234: 0100007F:07D3 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 4711 2 0000000000000000 17\n";
        assert_eq!(drops_of(table, 4711), Some(17));
        assert_eq!(drops_of(table, 1234), None);
        let socket = StdSocket::bind("127.0.0.1:0").unwrap();
        let own = std::fs::read_to_string("/proc/net/udp").unwrap();
        assert_eq!(drops_of(&own, inode(&socket).unwrap()), Some(0));
    }
}
