//! The shared store in memory, as each member sees it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Clock, ManualClock};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{
    Capabilities, ChangeFeed, Changes, ErrorKind, KeyspaceState, Lease, MetaEntry, MetaPage, MetadataStore,
    MetricMeta, NodeStart, ReadNotes, SchemaNeeds, SchemaStatus, Share, SharedFeatures, SharedStore, Store,
    StoreError, WriterIdentity,
};
use uuid::Uuid;

/// The state of the server, which all daemons share.
#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) names: MemoryStore,
    pub(crate) is_down: AtomicBool,
    pub(crate) starts: Mutex<Vec<NodeStart>>,
    pub(crate) names_restarts: AtomicU64,
    pub(crate) schema: Mutex<SchemaStatus>,
    pub(crate) checks: AtomicU64,
    pub(crate) writers: Mutex<BTreeMap<WriterIdentity, Uuid>>,
    pub(crate) forbids_writers: AtomicBool,
    pub(crate) registrations: AtomicU64,
    /// Each change: the connection that made it, its time in seconds since the epoch, the name, and whether
    /// the name was deleted.
    pub(crate) changes: Mutex<Vec<(u64, i64, String, bool)>>,
    pub(crate) requests: Mutex<Requests>,
    pub(crate) leases: Mutex<BTreeMap<String, Uuid>>,
    /// When metrics were last recorded as written, in seconds since the epoch.
    pub(crate) noted: Mutex<BTreeMap<String, i64>>,
    pub(crate) note_reads: AtomicU64,
    pub(crate) note_writes: AtomicU64,
    pub(crate) clock: ManualClock,
}

/// Counts the requests to the server.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) by_kind: BTreeMap<&'static str, u64>,
    /// The current second on tokio's clock, and the number of requests in it.
    second: Option<(tokio::time::Instant, u64)>,
    /// Largest number of requests in a second.
    pub(crate) most: u64,
}

impl Requests {
    fn add(&mut self, kind: &'static str, count: usize) {
        *self.by_kind.entry(kind).or_default() += count as u64;
        let now = tokio::time::Instant::now();
        let (began, requests) = self.second.unwrap_or((now, 0));
        let is_over = now.duration_since(began) >= Duration::from_secs(1);
        let (began, requests) = if is_over { (now, 0) } else { (began, requests) };
        self.second = Some((began, requests + count as u64));
        self.most = self.most.max(requests + count as u64);
    }

    pub(crate) fn of(&self, kinds: &[&str]) -> u64 {
        kinds.iter().filter_map(|kind| self.by_kind.get(kind)).sum()
    }
}

/// One daemon's connection to the server.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) server: Arc<Server>,
    number: u64,
    writer: Mutex<WriterIdentity>,
}

impl Connection {
    pub(crate) fn new(server: &Arc<Server>, number: u64, writer: WriterIdentity) -> Arc<Self> {
        Arc::new(Self { server: Arc::clone(server), number, writer: Mutex::new(writer) })
    }

    /// Creates metrics as another daemon would. Its requests are not counted.
    pub(crate) async fn create_uncounted(&self, metrics: &[MetricMeta]) {
        self.server.names.create(metrics).await.unwrap();
        self.note_change(metrics.iter().map(|meta| meta.name.clone()), false);
    }

    fn ask(&self) -> Result<&MemoryStore, StoreError> {
        match self.server.is_down.load(Ordering::Relaxed) {
            true => Err(StoreError::new(ErrorKind::Unavailable, "ask the server")),
            false => Ok(&self.server.names),
        }
    }

    fn note_change(&self, names: impl Iterator<Item = String>, deleted: bool) {
        let now = self.server.clock.now();
        self.server.changes.lock().unwrap().extend(names.map(|name| (self.number, now, name, deleted)));
    }

    fn count(&self, kind: &'static str, count: usize) {
        self.server.requests.lock().unwrap().add(kind, count);
    }
}

impl Store for Connection {
    fn capabilities(&self) -> Capabilities {
        Capabilities { several_writers: true, ..Capabilities::default() }
    }
}

#[boxed_futures]
impl MetadataStore for Connection {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        // Each metric has a directory and a row; the row is looked up and written.
        self.count("create", 3 * metrics.len());
        self.ask()?.create(metrics).await?;
        self.note_change(metrics.iter().map(|meta| meta.name.clone()), false);
        Ok(())
    }

    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        self.count("look up", names.len());
        self.ask()?.get(names).await
    }

    async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        MetadataStore::delete(self.ask()?, names).await?;
        self.note_change(names.iter().map(|name| (*name).to_owned()), true);
        Ok(())
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        self.ask()?.scan(position, limit).await
    }

    async fn sync_names(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        self.ask()?.hide(names, at).await
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        self.ask()?.show(names).await
    }

    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        self.ask()?.hidden().await
    }
}

#[derive(Debug)]
struct Feed {
    server: Arc<Server>,
    number: u64,
    read: usize,
}

#[boxed_futures]
impl ChangeFeed for Feed {
    async fn poll(&mut self) -> Result<Changes, StoreError> {
        let changes = self.server.changes.lock().unwrap();
        let new = changes[self.read..].iter().filter(|(by, ..)| *by != self.number);
        let names = new.map(|(_, at, name, deleted)| (name.clone(), deleted.then_some(*at))).collect();
        self.read = changes.len();
        self.server.requests.lock().unwrap().add("poll", 1);
        Ok(Changes { names, missed: false, read_until: self.server.clock.now() })
    }
}

#[derive(Debug)]
struct HeldLease {
    server: Arc<Server>,
    name: String,
    holder: Uuid,
}

#[boxed_futures]
impl Lease for HeldLease {
    async fn renew(&self) -> Result<bool, StoreError> {
        Ok(self.server.leases.lock().unwrap().get(&self.name) == Some(&self.holder))
    }

    async fn release(&self) -> Result<(), StoreError> {
        let mut leases = self.server.leases.lock().unwrap();
        if leases.get(&self.name) == Some(&self.holder) {
            leases.remove(&self.name);
        }
        Ok(())
    }
}

#[boxed_futures]
impl ReadNotes for Connection {
    async fn note_read(&self, _: &[&str]) -> Result<(), StoreError> {
        self.ask().map(|_| ())
    }
}

#[boxed_futures]
impl SharedStore for Connection {
    async fn wait_until_up(&self) -> Result<(), StoreError> {
        while self.ask().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    fn down_reason(&self) -> Option<String> {
        self.ask().is_err().then(|| "the server is down".to_owned())
    }

    fn missing_servers(&self) -> Option<String> {
        None
    }

    fn node_starts(&self) -> Vec<NodeStart> {
        self.server.starts.lock().unwrap().clone()
    }

    fn names_restarts(&self) -> u64 {
        self.server.names_restarts.load(Ordering::Relaxed)
    }

    async fn keyspace_state(&self) -> Result<Option<KeyspaceState>, StoreError> {
        self.ask()?;
        let schema = self.server.schema.lock().unwrap();
        Ok(Some(schema.keyspaces).filter(|_| schema.fatal.is_empty()))
    }

    async fn check_schema(&self, _: &SchemaNeeds) -> Result<SchemaStatus, StoreError> {
        self.ask()?;
        self.server.checks.fetch_add(1, Ordering::Relaxed);
        Ok(self.server.schema.lock().unwrap().clone())
    }

    async fn shared_features(&self) -> Result<SharedFeatures, StoreError> {
        Ok(self.server.schema.lock().unwrap().features)
    }

    fn refused_tables(&self) -> Vec<String> {
        Vec::new()
    }

    fn writer_identity(&self) -> WriterIdentity {
        *self.writer.lock().unwrap()
    }

    fn set_writer_identity(&self, writer: WriterIdentity) {
        *self.writer.lock().unwrap() = writer;
    }

    async fn register_writer(
        &self,
        writer: WriterIdentity,
        instance: Uuid,
        _: &str,
    ) -> Result<bool, StoreError> {
        self.ask()?;
        if self.server.forbids_writers.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Internal, "register the writer"));
        }
        self.server.registrations.fetch_add(1, Ordering::Relaxed);
        Ok(*self.server.writers.lock().unwrap().entry(writer).or_insert(instance) == instance)
    }

    async fn free_writer(&self, replica: u8) -> Result<Option<WriterIdentity>, StoreError> {
        self.ask()?;
        let taken = self.server.writers.lock().unwrap();
        let all = (0..).step_by(8).take(4).map(|id| WriterIdentity::new(replica, id));
        Ok(all.into_iter().find(|writer| !taken.contains_key(writer)))
    }

    async fn server_clock_ms(&self) -> Result<i64, StoreError> {
        self.ask().map(|_| self.server.clock.now_ms())
    }

    async fn scan_part(
        &self,
        part: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<MetaPage, StoreError> {
        self.count("scan", 1);
        let is_within = |name: &str| {
            let hash = name.bytes().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
            hash % u64::from(part.of) == u64::from(part.index)
        };
        let (mut page, mut position) = (MetaPage::default(), position);
        loop {
            let all = self.ask()?.scan(position, limit).await?;
            for (name, entry) in all.iter().filter(|(name, _)| is_within(name)) {
                page.text.push_str(name);
                page.entries.push(MetaEntry { name_end: page.text.len() as u32, ..entry.clone() });
            }
            position = all.next.clone();
            if position.is_none() || page.entries.len() >= limit {
                return Ok(MetaPage { next: position, ..page });
            }
        }
    }

    async fn exist(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        self.count("look up", names.len());
        Ok(self.ask()?.get(names).await?.iter().map(Option::is_some).collect())
    }

    async fn note_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError> {
        let exist = self.exist(names).await?;
        let mut noted = self.server.noted.lock().unwrap();
        for (name, _) in names.iter().zip(&exist).filter(|(_, exists)| **exists) {
            self.server.note_reads.fetch_add(1, Ordering::Relaxed);
            let at = noted.entry((*name).to_owned()).or_insert(0);
            if *at < since {
                *at = self.server.clock.now();
                self.server.note_writes.fetch_add(1, Ordering::Relaxed);
                self.count("touch", 1);
            }
        }
        Ok(exist)
    }

    async fn announce(&self, names: &[&str]) {
        self.count("announce", names.len().div_ceil(100));
        self.note_change(names.iter().map(|name| (*name).to_owned()), false);
    }

    fn change_feed(&self, since: i64) -> Box<dyn ChangeFeed> {
        let changes = self.server.changes.lock().unwrap();
        let read = changes.iter().take_while(|(_, at, ..)| *at < since).count();
        Box::new(Feed { server: Arc::clone(&self.server), number: self.number, read })
    }

    async fn take_lease(
        &self,
        name: &str,
        _: &str,
        _: Duration,
    ) -> Result<Option<Box<dyn Lease>>, StoreError> {
        let holder = Uuid::new_v4();
        if *self.server.leases.lock().unwrap().entry(name.to_owned()).or_insert(holder) != holder {
            return Ok(None);
        }
        Ok(Some(Box::new(HeldLease { server: Arc::clone(&self.server), name: name.to_owned(), holder })))
    }
}
