//! The store itself: points and names behind the contract.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryFutureExt;
use plumbago_model::{Clock, MetricId, Stage, Window};
use plumbago_store::{
    Appetite, Column, MetaPage, MetadataStore, MetricMeta, PointStore, ReadRequest, SlotRange, StoreError,
    WriteBatch,
};
use plumbago_telemetry::Registry;
use tokio::sync::watch;
use uuid::Uuid;

use crate::changes::ChangeFeed;
use crate::check::Features;
use crate::config::Config;
use crate::layout::{self, Partition, Table};
use crate::lease::Lease;
use crate::metadata::NameStore;
use crate::names::{NameLimits, NameProblem};
use crate::prepared::Tables;
use crate::read::{PointReader, Sight};
use crate::scan::TokenRange;
use crate::schema::ddl::Server;
use crate::session::Clusters;
use crate::stats::Stats;
use crate::write::PointWriter;
use crate::writers::{Identity, SharedIdentity};
use crate::{error, flight, late};

/// Slots in one call that keep a few hundred requests busy.
const SLOTS_PER_CALL: usize = 16_384;
/// How far ahead of now points may lie, for deletion.
const FUTURE_SECONDS: i64 = 86_400;

/// Points and names in Cassandra or ScyllaDB. Cloning shares it.
#[derive(Debug, Clone)]
pub struct CassandraStore {
    pub(crate) config: Arc<Config>,
    pub(crate) clusters: Clusters,
    pub(crate) tables: Arc<Tables>,
    pub(crate) names: Arc<NameStore>,
    pub(crate) stats: Stats,
    pub(crate) clock: Arc<dyn Clock>,
    writer: Arc<PointWriter>,
    reader: Arc<PointReader>,
    identity: SharedIdentity,
    reads: Arc<AtomicU64>,
    /// What the last check found the server to be.
    pub(crate) known: Arc<Mutex<Option<(Server, Features)>>>,
}

impl CassandraStore {
    /// Begins to connect, in the background, and returns at once; calls fail with `Unavailable` until
    /// a node answers. Must be called inside of the runtime that will use the store.
    ///
    /// `identity` is who writes: drawn once and kept in the data directory.
    pub fn connect(
        config: &Config,
        identity: Identity,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, StoreError> {
        let stats = Stats::new(registry);
        let clusters = Clusters::connect(config, &stats)?;
        let tables = Arc::new(Tables::new(clusters.points.clone(), config));
        let identity = SharedIdentity::new(identity);
        let writer = PointWriter::new(tables.clone(), config, identity.clone(), clock.clone(), stats.clone());
        let reader =
            PointReader::new(tables.clone(), config.concurrency as usize, clock.clone(), stats.clone());
        let names =
            NameStore::new(clusters.names.clone(), config, clock.clone(), stats.clone(), Uuid::new_v4());
        Ok(Self {
            config: Arc::new(config.clone()),
            clusters,
            tables,
            names: Arc::new(names),
            stats,
            clock,
            writer: Arc::new(writer),
            reader: Arc::new(reader),
            identity,
            reads: Arc::default(),
            known: Arc::default(),
        })
    }

    /// Waits until the clusters can be asked.
    pub async fn wait(&self) -> Result<(), StoreError> {
        self.clusters.points.wait().await?;
        self.clusters.names.wait().await.map(|_| ())
    }

    /// True when the clusters can be asked.
    pub fn is_up(&self) -> bool {
        self.clusters.is_up()
    }

    /// True while a known node of the points, or a whole cluster, is out of reach.
    pub fn misses_a_node(&self) -> bool {
        !self.is_up() || self.clusters.points.misses_a_node()
    }

    /// Why the clusters cannot be asked, for people; `None` when they can.
    pub fn trouble(&self) -> Option<String> {
        let down =
            [&self.clusters.points, &self.clusters.names].into_iter().find_map(|c| c.current().err())?;
        let why = down.source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
        Some(format!("{down}{why}"))
    }

    /// Which of these names are there, asked with the level of writes: for those who take an absence for a
    /// deletion.
    pub async fn are_there(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        self.names.are_there(names).await
    }

    /// As [`CassandraStore::node_returns`], of the cluster that has the names.
    pub fn node_returns_of_names(&self) -> watch::Receiver<u64> {
        self.clusters.names.returns()
    }

    /// A number that grows whenever a node is seen to return, or is reached after it could not be:
    /// then what was confirmed shortly before is sent again.
    pub fn node_returns(&self) -> watch::Receiver<u64> {
        self.clusters.points.returns()
    }

    /// Writes rows under a client timestamp.
    pub fn writer(&self) -> &Arc<PointWriter> {
        &self.writer
    }

    /// [`PointWriter::write_at`].
    pub async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), StoreError> {
        self.writer.write_at(batch, timestamp_us).await
    }

    /// Who writes.
    pub fn identity(&self) -> Identity {
        self.identity.get()
    }

    /// Writes as somebody else from now on: another instance had the identity.
    pub fn set_identity(&self, identity: Identity) {
        self.identity.set(identity);
    }

    /// Registers the writer ids for an instance; false when another instance has them, and a new
    /// identity has to be drawn. An error of the kind `Invalid` where the table is absent.
    pub async fn register_writer(
        &self,
        identity: Identity,
        instance: Uuid,
        host: &str,
    ) -> Result<bool, StoreError> {
        self.names.register_writer(identity, instance, host).await
    }

    /// Reads columns with our own windows, those of other writers beside them.
    pub async fn read_shares(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.reader.read(request, Sight::Shares(self.identity.get())).await
    }

    /// Makes windows that a late point changed into what our rows have to say, given what other
    /// writers of our replica have: call it for a batch of whole windows that are closed for every
    /// writer, before it goes to the spool.
    pub async fn leave_to_others(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        let coarse: Vec<usize> = (0..batch.runs.len()).filter(|i| batch.runs[*i].stage_index > 0).collect();
        if coarse.is_empty() {
            return Ok(());
        }
        let ranges = coarse.iter().map(|i| {
            let run = &batch.runs[*i];
            let (id, stage, stage_index, aggregation) = (run.id, run.stage, run.stage_index, run.aggregation);
            SlotRange {
                id,
                stage,
                stage_index,
                aggregation,
                from: run.first_slot,
                until: run.first_slot + run.len,
            }
        });
        let request = ReadRequest { ranges: ranges.collect(), ..Default::default() };
        let columns = self.reader.read(&request, Sight::Partners(self.identity.get())).await?;
        for (i, column) in coarse.into_iter().zip(&columns) {
            subtract(batch, i, column);
        }
        Ok(())
    }

    /// What names may be; `indexed` when they have to be found by SASI.
    pub fn name_limits(&self, indexed: bool) -> NameLimits {
        self.names.limits(indexed)
    }

    /// Says what is wrong with a name; it must be found by SASI when `indexed` is set or where there are
    /// such indexes, since others may search by them.
    pub fn check_name(&self, name: &str, indexed: bool) -> Result<(), NameProblem> {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has_sasi = known.is_some_and(|(_, features)| features.sasi);
        self.names.limits(indexed || has_sasi).check(name)
    }

    /// Notes in `updated_on` that metrics are being written. Call it for metrics whose last note is
    /// older than `touch_after`.
    pub async fn touch(&self, names: &[&str]) -> Result<(), StoreError> {
        self.names.note(names, false).await
    }

    /// Notes in `read_on` that metrics were read: one call in so many as the settings say does it.
    pub async fn note_read(&self, names: &[&str]) -> Result<(), StoreError> {
        let every = u64::from(self.config.read_on_sampling);
        if every == 0 || !self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(every) {
            return Ok(());
        }
        self.names.note(names, true).await
    }

    /// Begins to read the change feed; do so before the names are loaded.
    pub fn change_feed(&self) -> ChangeFeed {
        ChangeFeed::new(self.names.clone())
    }

    /// Takes a lease for a while; `None` when somebody else has it.
    pub async fn lease(&self, name: &str, host: &str, ttl: Duration) -> Result<Option<Lease>, StoreError> {
        Lease::take(self.names.clone(), name, host, ttl).await
    }

    /// A page of the metrics of a part of the ring.
    pub async fn scan_range(
        &self,
        range: TokenRange,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<MetaPage, StoreError> {
        self.names.scan(range, position, limit).await
    }

    /// Lets tables that were refused be tried again at once, after `syncdb`.
    pub fn retry_tables(&self) {
        self.tables.forgive();
    }

    /// Deletes the points of metrics that were written up to `timestamp_us`.
    pub async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        for (id, stages) in metrics {
            for stage in stages {
                self.delete_stage(*id, *stage, timestamp_us).await?;
            }
        }
        Ok(())
    }

    /// Deletes the partitions of a stage, in both tables that it may have.
    async fn delete_stage(&self, id: MetricId, stage: Stage, timestamp_us: i64) -> Result<(), StoreError> {
        let session = self.tables.session().await?;
        let now = self.clock.now();
        let reach = stage.duration() as i64 + layout::OUT_OF_ORDER_SECONDS as i64;
        let slot = |time: i64| u32::try_from(time.max(0) / i64::from(stage.resolution)).unwrap_or(u32::MAX);
        let first = Partition::of(slot(now - reach)).0;
        let count = (Partition::of(slot(now + FUTURE_SECONDS)).0 - first + 1) as usize;
        for coarse in [false, true] {
            let table = Table { stage, coarse };
            let statements = match self.tables.get(table).await {
                Ok(statements) => statements,
                Err(error) if error::is_invalid(&error) => continue,
                Err(error) => return Err(error),
            };
            let mut delete = statements.delete.clone();
            delete.set_timestamp(Some(timestamp_us));
            let session = &session;
            let delete = |i: usize| {
                let values = (Uuid::from_bytes(id.0), Partition(first + i as u32).start_ms(stage));
                let deletion = session.execute_unpaged(&delete, values);
                deletion.map_err(move |error| error::request(format!("delete from {}", table.name()), error))
            };
            flight::all(count, self.config.concurrency as usize, delete).await?;
        }
        Ok(())
    }
}

/// Replaces the windows of a run by what is missing to them.
fn subtract(batch: &mut WriteBatch, run: usize, others: &Column) {
    let run = batch.runs[run];
    for (i, at) in (run.at as usize..(run.at + run.len) as usize).enumerate() {
        let whole = Window { value: batch.values[at], count: batch.counts[at] };
        let other = Window { value: others.values[i], count: others.counts[i] };
        if whole.value.is_nan() || other.count == 0 {
            continue;
        }
        let ours = late::ours(run.aggregation, whole, Some(other));
        batch.values[at] = ours.value;
        batch.counts[at] = late::to_batch(ours.count);
    }
}

#[async_trait]
impl PointStore for CassandraStore {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.writer.write_at(batch, self.writer.next_timestamp_us()).await
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.reader.read(request, Sight::All).await
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        self.delete_at(metrics, self.writer.next_timestamp_us()).await
    }

    fn appetite(&self) -> Appetite {
        Appetite { concurrency: 2, slots_per_call: SLOTS_PER_CALL }
    }
}

#[async_trait]
impl MetadataStore for CassandraStore {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        self.names.create(metrics).await
    }

    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        self.names.get(names).await
    }

    async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        self.names.delete(names).await
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        self.names.scan(TokenRange::ALL, position, limit).await
    }

    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        self.names.hide(names, at).await
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        self.names.show(names).await
    }

    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        self.names.hidden().await
    }

    fn scans_in_order(&self) -> bool {
        false
    }
}
