//! `CassandraStore`, which implements the store contract for points and names.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, Clock, MetricId, Pattern, Stage, Window};
use plumbago_store::merge;
use plumbago_store::{
    Capabilities, Column, MetaPage, MetadataStore, MetricMeta, PointStore, ReadRequest, RemotePoints,
    SlotRange, Store, StoreError, WindowRow, WriteBatch, WriteLimits, WriteRefusal, WriterIdentity,
};
use plumbago_telemetry::Registry;
use uuid::Uuid;

use crate::config::Config;
use crate::features::Features;
use crate::find::{self, FindError, Finder, Limits, Node, Want};
use crate::metadata::NameStore;
use crate::names::{NameLimits, NameProblem};
use crate::prepared::Tables;
use crate::read::{PointReader, View};
use crate::scan::TokenRange;
use crate::schema::ddl::Server;
use crate::server_clock::ServerClock;
use crate::session::Clusters;
use crate::stats::Stats;
use crate::write::PointWriter;
use crate::writers::SharedIdentity;

/// Enough slots per call to keep a few hundred requests in flight.
const WRITE_LIMITS: WriteLimits = WriteLimits { concurrency: 2, slots_per_call: 16_384 };
/// Points and names in Cassandra or ScyllaDB. Clones share connections and state.
#[derive(Debug, Clone)]
pub struct CassandraStore {
    pub(crate) config: Arc<Config>,
    pub(crate) clusters: Clusters,
    pub(crate) tables: Arc<Tables>,
    pub(crate) names: Arc<NameStore>,
    finder: Arc<Finder>,
    pub(crate) stats: Stats,
    pub(crate) clock: Arc<dyn Clock>,
    writer: Arc<PointWriter>,
    pub(crate) reader: Arc<PointReader>,
    pub(crate) identity: SharedIdentity,
    pub(crate) server_clock: ServerClock,
    pub(crate) reads: Arc<AtomicU64>,
    /// The server and its features as of the last check; `None` before the first one.
    pub(crate) known: Arc<Mutex<Option<(Server, Features)>>>,
}

impl CassandraStore {
    /// Starts connecting in the background and returns at once. Calls fail with `Unavailable` until a node
    /// answers. Must be called inside the runtime that will use the store.
    ///
    /// `identity` is the writer identity of this daemon, which is kept in its data directory.
    ///
    /// # Errors
    /// `Invalid` if the certificates or the key for TLS cannot be read or used.
    pub fn connect(
        config: &Config,
        identity: WriterIdentity,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, StoreError> {
        let stats = Stats::new(registry);
        let clusters = Clusters::connect(config, &stats)?;
        let tables = Arc::new(Tables::new(clusters.points.clone(), config));
        let identity = SharedIdentity::new(identity);
        let server_clock = ServerClock::default();
        let clocks = (clock.clone(), server_clock.clone());
        let writer =
            PointWriter::new(tables.clone(), config, identity.clone(), clocks.clone(), stats.clone());
        let reader =
            PointReader::new(tables.clone(), config.concurrency as usize, clock.clone(), stats.clone());
        let names = NameStore::new(clusters.names.clone(), config, clocks, stats.clone(), Uuid::new_v4());
        let names = Arc::new(names);
        Ok(Self {
            config: Arc::new(config.clone()),
            clusters,
            tables,
            finder: Arc::new(Finder::new(names.clone())),
            names,
            stats,
            clock,
            writer: Arc::new(writer),
            reader: Arc::new(reader),
            identity,
            server_clock,
            reads: Arc::default(),
            known: Arc::default(),
        })
    }

    /// Waits until the clusters are connected.
    ///
    /// # Errors
    /// `Unavailable` if there is no connection after the wait; this does not happen in normal operation.
    pub async fn wait(&self) -> Result<(), StoreError> {
        self.clusters.points.wait().await?;
        self.clusters.names.wait().await.map(|_| ())
    }

    /// Whether the clusters are connected.
    pub fn is_up(&self) -> bool {
        self.clusters.is_up()
    }

    /// Whether an attempt to connect to one of the clusters has failed, and none has succeeded since.
    pub fn has_failed(&self) -> bool {
        self.clusters.points.has_failed() || self.clusters.names.has_failed()
    }

    /// The reason why a cluster is not connected, as text for operators; `None` if all are connected.
    pub fn trouble(&self) -> Option<String> {
        self.clusters.points.trouble().or_else(|| self.clusters.names.trouble())
    }

    /// Which of several nodes are not connected, as text for operators; `None` if all or none are connected.
    pub(crate) fn missing(&self) -> Option<String> {
        let Clusters { points, names, .. } = &self.clusters;
        let of_names = || names.missing().filter(|_| !Arc::ptr_eq(points, names));
        let missing: Vec<String> = points.missing().into_iter().chain(of_names()).collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    /// The nodes that match a glob, in byte order of their paths.
    ///
    /// # Errors
    /// `NoIndex` if the server has no SASI indexes, `TooManyResults` or `TooManyRows` if a limit is exceeded,
    /// `Store` if a request fails.
    pub async fn find(&self, pattern: &Pattern, want: Want, limits: Limits) -> Result<Vec<Node>, FindError> {
        let (server, features) = self.features().await?;
        if !features.sasi {
            return Err(FindError::NoIndex(self.find_advice(server)));
        }
        self.finder.find(pattern, want, limits).await
    }

    /// What an operator can do about missing SASI indexes.
    pub fn find_advice(&self, server: Server) -> String {
        find::advice(&self.config.metadata_keyspace(), server)
    }

    /// The data centre whose nodes are used for points: the one in the settings or, if they name none and the
    /// keyspace has replicas in several data centres, the one of the contact points. Empty for no preference.
    pub fn datacenter(&self) -> Arc<str> {
        self.clusters.points.datacenter()
    }

    /// Makes changes of names win over those of an earlier process of this daemon, whose rows of points had
    /// timestamps up to `last_us` (microseconds since the epoch). Otherwise they may lose if its clock was ahead.
    pub fn continue_after(&self, last_us: i64) {
        self.clusters.timestamps.continue_after(last_us);
    }

    /// Declares that rows of the spool up to `until_us` (microseconds since the epoch) carry the identity of
    /// another writer: the data directory is a copy of that writer's, which may send the same rows.
    pub fn set_former_writer(&self, identity: WriterIdentity, until_us: i64) {
        self.identity.set_former(identity, until_us);
    }

    /// The writer of points, for callers that choose the timestamp of the rows.
    pub fn writer(&self) -> &Arc<PointWriter> {
        &self.writer
    }

    /// Subtracts from each window of a coarse stage what other writers of the same replica have stored for
    /// it, so that the merge of all rows gives the window of the batch.
    async fn subtract_same_replica(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
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
        let columns = self.reader.read(&request, View::SameReplica(self.identity.get())).await?;
        for (i, column) in coarse.into_iter().zip(&columns) {
            subtract(batch, i, column);
        }
        Ok(())
    }

    /// The limits on names; `indexed` if SASI indexes must be able to find them.
    pub fn name_limits(&self, indexed: bool) -> NameLimits {
        self.names.limits(indexed)
    }

    /// Checks whether the tables can hold a name. SASI indexes must be able to find it if `indexed` is set
    /// or the server has such indexes, because other daemons may search with them.
    ///
    /// # Errors
    /// The first problem found, if the tables cannot hold the name.
    pub fn check_name(&self, name: &str, indexed: bool) -> Result<(), NameProblem> {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has_sasi = known.is_some_and(|(_, features)| features.sasi);
        self.names.limits(indexed || has_sasi).check(name)
    }

    /// A page of the metrics whose names have their token in `range`. `position` is the `next` of the page
    /// before, or `None` for the first page.
    ///
    /// # Errors
    /// `Unavailable`, `Timeout` or `Overloaded` if the cluster does not answer, `Corrupt` if the result does
    /// not have the expected form.
    pub async fn scan_range(
        &self,
        range: TokenRange,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<MetaPage, StoreError> {
        self.names.scan(range, position, limit).await
    }

    /// Retries refused tables with the next request, for example after `syncdb` created them.
    pub fn retry_tables(&self) {
        self.tables.forgive();
    }
}

/// Subtracts the windows of other writers from the windows of a run.
fn subtract(batch: &mut WriteBatch, run: usize, others: &Column) {
    let run = batch.runs[run];
    for (i, at) in (run.at as usize..(run.at + run.len) as usize).enumerate() {
        let whole = Window { value: batch.values[at], count: batch.counts[at].of_window() };
        let other = WindowRow { value: others.values[i], count: others.counts[i] };
        if whole.value.is_nan() {
            continue;
        }
        let own = merge::own_part(run.aggregation, whole, other);
        (batch.values[at], batch.counts[at]) = (own.value, own.count);
    }
}

impl Store for CassandraStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { several_writers: true, ..Capabilities::default() }
    }
}

#[boxed_futures]
impl RemotePoints for CassandraStore {
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        self.writer.write_runs_at(batch, timestamp_us).await
    }

    async fn write_for(
        &self,
        batch: &WriteBatch,
        timestamp_us: i64,
        servers: &[Uuid],
    ) -> Result<u64, WriteRefusal> {
        self.writer.write_for(batch, timestamp_us, servers).await
    }

    async fn rows_by_server(&self, batch: &WriteBatch) -> Result<BTreeMap<Uuid, u64>, StoreError> {
        self.writer.rows_by_node(batch).await
    }

    async fn read_own(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.reader.read(request, View::OwnAndOthers(self.identity.get())).await
    }

    async fn occupied(
        &self,
        ranges: &[SlotRange],
        is_decisive: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        self.occupied_parts(ranges, is_decisive).await
    }

    async fn written_at(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<i64>>, StoreError> {
        self.reader.written_at(ranges, self.identity.get()).await
    }

    async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        for (id, stages) in metrics {
            for stage in stages {
                self.delete_stage(*id, *stage, pending, timestamp_us).await?;
            }
        }
        Ok(())
    }

    async fn delete_ranges_at(
        &self,
        ranges: &[SlotRange],
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        for range in ranges {
            self.delete_range(range, pending, timestamp_us).await?;
        }
        Ok(())
    }

    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        self.subtract_same_replica(batch).await
    }

    fn write_limits(&self) -> WriteLimits {
        WRITE_LIMITS
    }
}

#[boxed_futures]
impl PointStore for CassandraStore {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.writer.write_at(batch, self.writer.next_timestamp_us()).await
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.reader.read(request, View::Merged).await
    }

    async fn occupied(
        &self,
        ranges: &[SlotRange],
        is_decisive: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        self.occupied_parts(ranges, is_decisive).await
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        RemotePoints::delete_at(self, metrics, &[], self.writer.next_timestamp_us()).await
    }

    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError> {
        RemotePoints::delete_ranges_at(self, ranges, &[], self.writer.next_timestamp_us()).await
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        Ok(request.unknown())
    }

    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        self.subtract_same_replica(batch).await
    }

    fn write_limits(&self) -> WriteLimits {
        WRITE_LIMITS
    }
}

#[boxed_futures]
impl MetadataStore for CassandraStore {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        self.names.create(metrics).await
    }

    async fn set_aggregation(&self, name: &str, method: Aggregation) -> Result<(), StoreError> {
        self.names.set_aggregation(name, method).await
    }

    async fn set_configs(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        self.names.set_configs(metrics).await
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

    /// Does nothing: nothing is kept on the local disk.
    async fn sync_names(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        self.names.show(names).await
    }

    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        self.names.hidden().await
    }
}
