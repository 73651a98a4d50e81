//! Running listeners, and a sink that collects the accepted points.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plumbago_boxed_futures::boxed_futures;
use plumbago_ingest::config::TcpConfig;
use plumbago_ingest::{Addresses, Config, Handle, Ingest, Listener, PointSink, Rules, Stats};
use plumbago_model::{ManualClock, PointBatch};
use plumbago_telemetry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const NOW: u32 = 1_700_000_000;

/// The settings of all listeners, on ports that the kernel chooses.
pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.udp.listen = "127.0.0.1:0".into();
    for name in ["line", "pickle", "protobuf"] {
        section(&mut config, name).listen = "127.0.0.1:0".into();
    }
    config
}

/// The section of a protocol on TCP.
pub(crate) fn section<'a>(config: &'a mut Config, name: &str) -> &'a mut TcpConfig {
    config.tcp.get_mut(name).unwrap()
}

/// A listener by its label.
pub(crate) fn listener(label: &str) -> Listener {
    Listener::named(label).unwrap()
}

/// A message preceded by its length.
pub(crate) fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A sink that collects the points. While the test holds it, pushes wait.
#[derive(Debug)]
pub(crate) struct Collect {
    points: Mutex<Vec<(String, u32, f64)>>,
    pub(crate) pushes: AtomicUsize,
    /// Number of pushes that wait because the sink is held.
    pub(crate) waiting: AtomicUsize,
    held: watch::Sender<bool>,
}

impl Collect {
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    pub(crate) fn release(&self) {
        self.held.send_replace(false);
    }

    fn take(&self, batch: &PointBatch) {
        let points = batch.points().iter().map(|p| (batch.name(p).to_owned(), p.timestamp, p.value));
        self.points.lock().unwrap().extend(points);
        self.pushes.fetch_add(1, Ordering::Relaxed);
    }
}

#[boxed_futures]
impl PointSink for Collect {
    async fn push(&self, batch: PointBatch) -> bool {
        let mut held = self.held.subscribe();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        held.wait_for(|held| !held).await.expect("the sink lives");
        self.waiting.fetch_sub(1, Ordering::Relaxed);
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

    async fn wait_written(&self) -> bool {
        true
    }
}

/// Running listeners.
pub(crate) struct Daemon {
    pub(crate) sink: Arc<Collect>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) registry: Registry,
    pub(crate) addresses: Addresses,
    pub(crate) handle: Handle,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

/// The points and counters of stopped listeners.
pub(crate) struct Stopped {
    /// The points, sorted by name and time.
    pub(crate) points: Vec<(String, u32, f64)>,
    handle: Handle,
}

impl Stopped {
    pub(crate) fn stats(&self) -> &Stats {
        self.handle.stats()
    }
}

impl Daemon {
    pub(crate) fn start(config: &Config) -> Self {
        let sink = Arc::new(Collect {
            points: Mutex::default(),
            pushes: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            held: watch::Sender::new(false),
        });
        let clock = Arc::new(ManualClock::at(i64::from(NOW)));
        let registry = Registry::new();
        assert_eq!(config.problems(), Vec::<String>::new());
        let rules = Rules::load(config.rule_files()).unwrap();
        let ingest =
            Ingest::bind(config, rules, Arc::clone(&sink) as _, Arc::clone(&clock) as _, &registry).unwrap();
        let (addresses, handle, stop) =
            (ingest.addresses().clone(), ingest.handle(), CancellationToken::new());
        let running = tokio::spawn(ingest.run(stop.clone()));
        Self { sink, clock, registry, addresses, handle, stop, running }
    }

    pub(crate) fn line(&self) -> SocketAddr {
        self.address("line")
    }

    pub(crate) fn pickle(&self) -> SocketAddr {
        self.address("pickle")
    }

    pub(crate) fn protobuf(&self) -> SocketAddr {
        self.address("protobuf")
    }

    pub(crate) fn address(&self, label: &str) -> SocketAddr {
        self.addresses.of(listener(label)).unwrap()
    }

    pub(crate) fn stats(&self) -> &Stats {
        self.handle.stats()
    }

    /// Connects, writes and closes.
    pub(crate) fn send(&self, address: SocketAddr, bytes: &[u8]) {
        let mut stream = TcpStream::connect(address).unwrap();
        // The listener may have refused the rest and closed the connection.
        let _ = stream.write_all(bytes);
    }

    pub(crate) async fn stop(self) -> Stopped {
        self.stop.cancel();
        self.running.await.unwrap();
        let mut points = std::mem::take(&mut *self.sink.points.lock().unwrap());
        points.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        Stopped { points, handle: self.handle }
    }
}
