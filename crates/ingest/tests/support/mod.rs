//! Running listeners, and the sink that collects what they accept.

#![allow(unreachable_pub, reason = "each test binary takes this in as a module of its own")]
#![allow(dead_code, reason = "and uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use plumbago_ingest::{Addresses, Config, Handle, Ingest, PointSink, Rules, Stats};
use plumbago_model::{ManualClock, PointBatch};
use plumbago_telemetry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const NOW: u32 = 1_700_000_000;

/// All listeners on ports that the kernel chooses.
pub fn config() -> Config {
    let mut config = Config::default();
    for listen in [
        &mut config.line.listen,
        &mut config.udp.listen,
        &mut config.pickle.listen,
        &mut config.protobuf.listen,
    ] {
        *listen = "127.0.0.1:0".into();
    }
    config
}

/// A message behind its length.
pub fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// Waits for something that must happen; a test that never sees it hangs until its guard.
pub async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.expect("it happens");
}

/// Keeps the points; holds them back when told to.
#[derive(Debug)]
pub struct Collect {
    points: Mutex<Vec<(String, u32, f64)>>,
    pub pushes: AtomicUsize,
    held: watch::Sender<bool>,
}

impl Collect {
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    pub fn release(&self) {
        self.held.send_replace(false);
    }

    fn take(&self, batch: &PointBatch) {
        let points = batch.points().iter().map(|p| (batch.name(p).to_owned(), p.timestamp, p.value));
        self.points.lock().unwrap().extend(points);
        self.pushes.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl PointSink for Collect {
    async fn push(&self, batch: PointBatch) -> bool {
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held).await.expect("the sink lives");
        self.take(&batch);
        true
    }

    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        if *self.held.borrow() {
            return Err(batch);
        }
        self.take(&batch);
        Ok(())
    }
}

/// Running listeners.
pub struct Daemon {
    pub sink: Arc<Collect>,
    pub clock: Arc<ManualClock>,
    pub registry: Registry,
    pub addresses: Addresses,
    pub handle: Handle,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

/// What is left of a daemon.
pub struct Stopped {
    /// The points, sorted by name and time.
    pub points: Vec<(String, u32, f64)>,
    handle: Handle,
}

impl Stopped {
    pub fn stats(&self) -> &Stats {
        self.handle.stats()
    }
}

impl Daemon {
    pub fn start(config: &Config) -> Self {
        let sink = Arc::new(Collect {
            points: Mutex::default(),
            pushes: AtomicUsize::new(0),
            held: watch::Sender::new(false),
        });
        let clock = Arc::new(ManualClock::at(i64::from(NOW)));
        let registry = Registry::new();
        assert_eq!(config.problems(), Vec::<String>::new());
        let rules = Rules::load(config).unwrap();
        let ingest =
            Ingest::bind(config, rules, Arc::clone(&sink) as _, Arc::clone(&clock) as _, &registry).unwrap();
        let (addresses, handle, stop) = (ingest.addresses(), ingest.handle(), CancellationToken::new());
        let running = tokio::spawn(ingest.run(stop.clone()));
        Self { sink, clock, registry, addresses, handle, stop, running }
    }

    pub fn line(&self) -> SocketAddr {
        self.addresses.line.unwrap()
    }

    pub fn pickle(&self) -> SocketAddr {
        self.addresses.pickle.unwrap()
    }

    pub fn protobuf(&self) -> SocketAddr {
        self.addresses.protobuf.unwrap()
    }

    pub fn stats(&self) -> &Stats {
        self.handle.stats()
    }

    /// Connects, writes and closes.
    pub fn send(&self, address: SocketAddr, bytes: &[u8]) {
        let mut stream = TcpStream::connect(address).unwrap();
        // A listener that refuses the rest may have closed already.
        let _ = stream.write_all(bytes);
    }

    pub async fn stop(self) -> Stopped {
        self.stop.cancel();
        self.running.await.unwrap();
        let mut points = std::mem::take(&mut *self.sink.points.lock().unwrap());
        points.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        Stopped { points, handle: self.handle }
    }
}
