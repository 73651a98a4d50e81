//! A shared store in memory for several members, and fakes for the parts of a member.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_cluster::{
    LocalMetrics, Member, MemberParts, Names, NodesFile, NotAcknowledged, Outbox, RowTimestamps, ScanFile,
    WriterFile,
};
use plumbago_model::{Aggregation, Clock, ManualClock, MetricConfig, MetricId};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{
    ErrorKind, FetchError, MetadataStore, MetricMeta, SchemaNeeds, SharedFeatures, SharedStore, StoreError,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) mod server;

pub(crate) use server::{Connection, Server};

pub(crate) const NOW: i64 = 1_760_000_000;

/// The metrics that a daemon has loaded, and those that are getting points.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) names: Mutex<BTreeSet<String>>,
    /// When each metric got its last point, in seconds since the epoch.
    pub(crate) written: Mutex<BTreeMap<String, i64>>,
}

impl Loaded {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.lock().unwrap().contains(name)
    }

    /// Makes a metric get points all the time.
    pub(crate) fn set_written(&self, name: &str) {
        self.set_written_at(name, i64::MAX);
    }

    pub(crate) fn set_written_at(&self, name: &str, at: i64) {
        self.written.lock().unwrap().insert(name.to_owned(), at);
    }
}

#[boxed_futures]
impl LocalMetrics for Loaded {
    async fn adopt(&self, metrics: &[MetricMeta]) -> Result<(), FetchError> {
        self.names.lock().unwrap().extend(metrics.iter().map(|meta| meta.name.clone()));
        Ok(())
    }

    async fn contains(&self, names: &[&str]) -> Result<Vec<bool>, FetchError> {
        Ok(names.iter().map(|name| self.has(name)).collect())
    }

    async fn are_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError> {
        let written = self.written.lock().unwrap();
        Ok(names.iter().map(|name| written.get(*name).is_some_and(|at| *at >= since)).collect())
    }

    async fn forget(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError> {
        let written = self.are_written(names, since).await?;
        let mut loaded = self.names.lock().unwrap();
        let forget = |(name, written): (&&str, bool)| {
            if !written {
                loaded.remove(*name);
            }
            !written
        };
        Ok(names.iter().zip(written).map(forget).collect())
    }
}

/// An outbox that counts calls.
#[derive(Debug, Default)]
pub(crate) struct FakeOutbox {
    pub(crate) resent: AtomicU64,
    /// Metrics whose rows were removed, each with the time up to which, in microseconds since the epoch.
    pub(crate) forgotten: Mutex<Vec<(MetricId, i64)>>,
    /// While `true`, rows cannot be sent again.
    pub(crate) is_broken: AtomicBool,
    /// Up to when rows may expire, in milliseconds of the steady clock.
    pub(crate) released_ms: AtomicI64,
    /// The last timestamp of a row, in microseconds since the epoch.
    pub(crate) last_us: AtomicI64,
    /// How far the daemon's clock is behind, in milliseconds.
    pub(crate) lag_ms: AtomicI64,
    /// What the servers answer when asked whether they keep a commit log.
    pub(crate) is_durable: AtomicBool,
    /// Why nothing is acknowledged.
    pub(crate) error: Mutex<Option<NotAcknowledged>>,
}

impl RowTimestamps for FakeOutbox {
    fn last_us(&self) -> i64 {
        self.last_us.load(Ordering::Relaxed)
    }

    fn set_lag(&self, ms: i64) {
        self.lag_ms.store(ms, Ordering::Relaxed);
    }
}

impl Outbox for FakeOutbox {
    fn resend(&self, _servers: &[Uuid]) -> Result<u64, StoreError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Unavailable, "send again"));
        }
        self.resent.fetch_add(1, Ordering::Relaxed);
        Ok(1)
    }

    fn forget_before(&self, deleted: &[(MetricId, i64)]) -> Result<(), StoreError> {
        self.forgotten.lock().unwrap().extend_from_slice(deleted);
        Ok(())
    }

    fn set_durable(&self, is_durable: bool) {
        self.is_durable.store(is_durable, Ordering::Relaxed);
    }

    fn release(&self, until_ms: i64) {
        self.released_ms.store(until_ms, Ordering::Relaxed);
    }

    fn last_error(&self) -> Option<NotAcknowledged> {
        self.error.lock().unwrap().clone()
    }

    fn deferred(&self) -> Option<(u64, Option<String>)> {
        None
    }

    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A daemon in memory, except for its files `writer-id` and the marker of the copied names.
pub(crate) struct Daemon {
    pub(crate) member: Member,
    pub(crate) names: Names,
    pub(crate) copy: MemoryStore,
    pub(crate) connection: Arc<Connection>,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) outbox: Arc<FakeOutbox>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) stop: CancellationToken,
}

impl Daemon {
    pub(crate) fn new(server: &Arc<Server>, number: u64, dir: &Path) -> Self {
        Self::with(server, number, dir, Duration::from_secs(600))
    }

    /// Makes a daemon that notes each written metric once in `touch_after`. It uses the clock of the server.
    pub(crate) fn with(server: &Arc<Server>, number: u64, dir: &Path, touch_after: Duration) -> Self {
        let writer = WriterFile::load(dir, 0).unwrap();
        let connection = Connection::new(server, number, writer.identity());
        let (copy, stop) = (MemoryStore::default(), CancellationToken::new());
        let (checked, is_checked) = watch::channel(false);
        let store: Arc<dyn SharedStore> = connection.clone();
        let marker = (dir.join("complete"), true);
        let names = Names::new(Arc::clone(&store), Arc::new(copy.clone()), marker, is_checked, stop.clone());
        let outbox = Arc::new(FakeOutbox::default());
        let clock = Arc::new(ManualClock::at(server.clock.now()));
        let member = Member::new(MemberParts {
            store,
            names: names.clone(),
            outbox: outbox.clone(),
            timestamps: outbox.clone(),
            writer,
            nodes: NodesFile::load(dir),
            scan: ScanFile::load(dir),
            needs: SchemaNeeds::default(),
            clock: clock.clone(),
            touch_after,
            checked,
        });
        Self { member, names, copy, connection, loaded: Arc::default(), outbox, clock, stop }
    }

    /// Gives the daemon the copy of the names that an earlier process has made, and loads the names.
    pub(crate) async fn copy_from(&self, server: &Server) {
        let all = server.names.scan(None, 100_000).await.unwrap();
        let known = |name: &str| !name.contains("while.down");
        let metas: Vec<MetricMeta> = all
            .iter()
            .filter(|(name, _)| known(name))
            .map(|(name, entry)| MetricMeta {
                name: name.to_owned(),
                config: entry.config.clone(),
                created_on: entry.created_on,
            })
            .collect();
        self.copy.create(&metas).await.unwrap();
        self.loaded.names.lock().unwrap().extend(metas.into_iter().map(|meta| meta.name));
    }

    /// Joins the cluster and starts the background tasks.
    pub(crate) async fn start(&self) {
        assert!(self.member.join(&self.stop).await);
        let local: Arc<dyn LocalMetrics> = self.loaded.clone();
        self.member.spawn_tasks(&local, &self.stop);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Makes a server that has all features.
pub(crate) fn server() -> Arc<Server> {
    let server = Server { clock: ManualClock::at(NOW), ..Server::default() };
    server.schema.lock().unwrap().features = SharedFeatures { changes: true, leases: true, writers: true };
    Arc::new(server)
}

pub(crate) fn metric(name: &str) -> MetricMeta {
    let config = MetricConfig {
        retention: "60s:1d".parse().unwrap(),
        aggregation: Aggregation::Average,
        x_files_factor: 0.5,
    };
    MetricMeta { name: name.to_owned(), config: Arc::new(config), created_on: (NOW - 3600) as u32 }
}

/// Waits for a condition. The clock of the tests is paused, so this takes no real time.
pub(crate) async fn wait_until(what: &str, condition: impl AsyncFn() -> bool) {
    for _ in 0..100_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("still waiting for {what}");
}
