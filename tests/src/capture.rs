//! A TCP listener that keeps what it is sent: the second destination of a real sender, to know what
//! the sender really said.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use crate::send::Point;

/// Takes connections until the process ends.
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
            // One connection at a time, so that lines of two do not mix.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The whole lines so far that hold a point, unknown values left out.
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

/// A port that is free now, for programs that cannot be given port 0.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
