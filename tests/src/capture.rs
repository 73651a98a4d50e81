//! A TCP listener that records what it receives. As the second destination of a real sender, it shows what
//! the sender sent to the daemon.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use crate::send::Point;
use crate::wait::wait_for;

/// A recording listener. It accepts connections for the rest of the process.
#[derive(Debug)]
pub struct Capture {
    address: SocketAddr,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Capture {
    /// Listens on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        std::thread::spawn(move || {
            // One connection at a time, so that lines of two connections are not mixed.
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut buffer = [0; 65536];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..n]);
                }
            }
        });
        Self { address, bytes }
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The points of all complete lines so far. Unknown values (NaN) are left out.
    pub fn points(&self) -> Vec<Point> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.rfind('\n').map_or("", |at| &text[..at]);
        whole.lines().filter_map(point).collect()
    }
}

fn point(line: &str) -> Option<Point> {
    let mut fields = line.split_whitespace();
    let name = fields.next()?;
    let value: f64 = fields.next()?.parse().ok()?;
    let timestamp: f64 = fields.next()?.parse().ok()?;
    (!value.is_nan()).then(|| Point::new(name, timestamp as i64, value))
}

/// An address for a program that does not accept port 0, or that must keep its port after a restart. The
/// loopback address is random, and the port lies below those that the kernel assigns. So no other socket of
/// the tests takes the address between this call and the program's bind.
pub fn own_address() -> SocketAddr {
    wait_for("a free loopback address", || {
        let [a, b, c]: [u8; 3] = rand::random();
        let address = Ipv4Addr::new(127, a.clamp(1, 254), b, c.clamp(1, 254));
        let address = SocketAddr::from((address, rand::random_range(10_000..30_000)));
        TcpListener::bind(address).is_ok().then_some(address)
    })
}
