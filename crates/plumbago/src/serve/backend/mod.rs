//! The stores behind the engine: the embedded store, or Cassandra with a spool in front of it.

pub(super) mod adapters;
mod cassandra;
mod sasi;
mod stages;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use plumbago_api::NameFinder;
use plumbago_engine::{Engine, NameCheck};
use plumbago_maintenance::{JobLease, NoLeases, Stores};
use plumbago_model::{Clock, Retention};
use plumbago_spool::sender::Again;
use plumbago_store::{
    DirectoryStore, ErrorKind, FlushStore, MetadataStore, PointStore, ReadNotes, SchemaNeeds, SharedStore,
    SharedWindows, StageSizes, StoreError,
};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_embedded::EmbeddedStore;
use plumbago_telemetry::{Conditions, Registry, Severity};
use tokio_util::sync::CancellationToken;

use self::adapters::JobLeases;
use self::cassandra::Cassandra;
use super::{MAINTENANCE, rules};
use crate::config::{Config, StoreKind};
use crate::error::{Exit, Failure};

/// Pause between two updates of the gauges of the disk.
const MEASURE: Duration = Duration::from_secs(10);

/// The opened stores, by the traits through which they are used.
pub(super) struct Backend {
    pub(super) points: Arc<dyn PointStore>,
    pub(super) flush: Arc<dyn FlushStore>,
    pub(super) metadata: Arc<dyn MetadataStore>,
    pub(super) keeper: Keeper,
}

/// The store as a whole: its background tasks, its state for operators, and closing it.
#[derive(Debug, Clone)]
pub(super) enum Keeper {
    Embedded(EmbeddedStore),
    Cassandra(Box<Cassandra>),
}

impl Backend {
    /// Opens the store that `store.kind` names. Does not wait for a server.
    pub(super) fn open(
        config: &Config,
        rules: &rules::Live,
        clock: &Arc<dyn Clock>,
        registry: &Registry,
        stop: &CancellationToken,
    ) -> Result<Self, Failure> {
        match config.store.kind {
            StoreKind::Embedded => {
                let store = open_embedded(config, clock, registry).map_err(failure)?;
                Ok(Self {
                    points: Arc::new(store.clone()),
                    flush: Arc::new(store.clone()),
                    metadata: Arc::new(store.clone()),
                    keeper: Keeper::Embedded(store),
                })
            }
            StoreKind::Cassandra => {
                let cassandra = Cassandra::open(config, rules, clock, registry, stop)?;
                Ok(Self {
                    points: Arc::new(cassandra.spooled.clone()),
                    flush: Arc::new(cassandra.spooled.clone()),
                    metadata: Arc::new(cassandra.names.clone()),
                    keeper: Keeper::Cassandra(Box::new(cassandra)),
                })
            }
        }
    }
}

impl Backend {
    /// Returns the stores that maintenance jobs work on. The embedded store has no rows of directories. In
    /// Cassandra rows of points expire by themselves, so jobs need not delete them.
    pub(super) fn stores(&self) -> Stores {
        let (metadata, points) = (Arc::clone(&self.metadata), Arc::clone(&self.points));
        let states = Some(Arc::clone(&self.flush));
        match &self.keeper {
            Keeper::Embedded(store) => {
                let rows = Arc::new(store.clone());
                let listing = Arc::clone(&metadata);
                let (directories, windows) = (None, None);
                Stores { rows, metadata, listing, points, directories, states, windows, delete_points: true }
            }
            Keeper::Cassandra(cassandra) => {
                let rows = Arc::new(cassandra.store.clone());
                let directories: Option<Arc<dyn DirectoryStore>> = Some(Arc::clone(&rows) as _);
                // The listing must not use `Names`. For `Names`, a metric with metadata already exists, so a
                // repair through it would write nothing.
                let listing: Arc<dyn MetadataStore> = rows.clone();
                let windows: Option<Arc<dyn SharedWindows>> = Some(Arc::clone(&rows) as _);
                Stores { rows, metadata, listing, points, directories, states, windows, delete_points: false }
            }
        }
    }
}

/// How long a command waits until the servers have acknowledged all rows.
const SEND_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl Keeper {
    /// Starts the background tasks of the store.
    pub(super) fn spawn_chores(&self, engine: &Engine, stop: &CancellationToken) {
        match self {
            Self::Embedded(store) => {
                tokio::spawn(measure(store.clone(), stop.clone()));
                tokio::spawn(maintain(store.clone(), stop.clone()));
            }
            Self::Cassandra(cassandra) => cassandra.spawn_tasks(engine, stop),
        }
    }

    /// Returns the check for names that the store cannot hold.
    pub(super) fn name_check(&self) -> NameCheck {
        match self {
            Self::Embedded(_) => Arc::new(|_| Ok(())),
            Self::Cassandra(cassandra) => cassandra.name_check(),
        }
    }

    /// Returns the finder of names if they are not loaded into memory (`index.mode = "sasi"`).
    pub(super) fn finder(&self) -> Option<Arc<dyn NameFinder>> {
        match self {
            Self::Embedded(_) => None,
            Self::Cassandra(cassandra) => {
                cassandra.by_sasi.then(|| Arc::new(sasi::Sasi(cassandra.store.clone())) as _)
            }
        }
    }

    /// Returns the store that records which metrics are read, if there is one.
    pub(super) fn notes_reads(&self) -> Option<Arc<dyn ReadNotes>> {
        match self {
            Self::Embedded(store) => Some(Arc::new(store.clone())),
            Self::Cassandra(cassandra) => {
                cassandra.notes_reads.then(|| Arc::new(cassandra.store.clone()) as _)
            }
        }
    }

    /// Returns the store in Cassandra, if that is the store.
    pub(super) fn cassandra(&self) -> Option<&CassandraStore> {
        match self {
            Self::Embedded(_) => None,
            Self::Cassandra(cassandra) => Some(&cassandra.store),
        }
    }

    /// Returns the part that measures the bytes of metrics, if the store has one.
    pub(super) fn sizes(&self) -> Option<Arc<dyn StageSizes>> {
        match self {
            Self::Embedded(store) => Some(Arc::new(store.clone())),
            Self::Cassandra(_) => None,
        }
    }

    /// Returns the leases that decide which daemon on this store runs a job.
    pub(super) fn job_lease(&self) -> Arc<dyn JobLease> {
        match self {
            Self::Embedded(_) => Arc::new(NoLeases),
            Self::Cassandra(cassandra) => Arc::new(JobLeases(Arc::clone(&cassandra.leases))),
        }
    }

    /// Returns the replica id and the writer id if several daemons may share the store.
    pub(super) fn writer(&self) -> Option<(u8, u16)> {
        match self {
            Self::Embedded(_) => None,
            Self::Cassandra(cassandra) => {
                let identity = cassandra.member.writer_identity();
                Some((identity.replica(), identity.first_id()))
            }
        }
    }

    /// Raises conditions in `conditions` for everything that is wrong with the store.
    pub(super) fn report(&self, conditions: &Conditions) {
        match self {
            Self::Embedded(store) => conditions.set(Severity::NotReady, "store_broken", store.trouble()),
            Self::Cassandra(cassandra) => cassandra.member.report(conditions),
        }
    }

    /// Sends rows again that were acknowledged since `since` (seconds since the epoch) and that the spool
    /// still retains. Returns their size in bytes.
    pub(super) fn replay(&self, since: i64) -> anyhow::Result<u64> {
        match self {
            Self::Embedded(_) => {
                anyhow::bail!("the embedded store has no spool, so there is nothing to send again")
            }
            Self::Cassandra(cassandra) => Ok(cassandra.spooled.replay(since.saturating_mul(1_000_000))?),
        }
    }

    /// Counts what [`Self::replay`] would send again, and changes nothing.
    pub(super) async fn would_replay(&self, since: i64) -> anyhow::Result<Again> {
        match self {
            Self::Embedded(_) => {
                anyhow::bail!("the embedded store has no spool, so there is nothing to send again")
            }
            Self::Cassandra(cassandra) => {
                Ok(cassandra.spooled.would_replay(since.saturating_mul(1_000_000)).await?)
            }
        }
    }

    /// Why the store cannot hold metrics of this retention; `None` if it can. `needed` are all retentions in use.
    pub(super) async fn refuses(
        &self,
        retention: &Retention,
        needed: Vec<Retention>,
    ) -> Result<Option<String>, StoreError> {
        let Self::Cassandra(cassandra) = self else { return Ok(None) };
        let needs = SchemaNeeds { retentions: needed, finds_names: cassandra.by_sasi };
        let status = cassandra.store.check_schema(&needs).await?;
        let why = status.fatal.first().map(|fatal| {
            format!("{fatal}. Create the tables of its retention: plumbago syncdb --retention {retention}")
        });
        Ok(why)
    }

    /// Waits until a store on other machines has acknowledged all rows, or until `stop` is cancelled.
    pub(super) async fn all_sent(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        let Self::Cassandra(cassandra) = self else { return Ok(()) };
        let sent = stop.run_until_cancelled(cassandra.spooled.drain(SEND_TIMEOUT)).await;
        if sent == Some(true) {
            return Ok(());
        }
        let status = cassandra.spooled.status();
        let why = status.last_error.unwrap_or_else(|| "the servers did not answer in time".to_owned());
        let operation = format!(
            "send {} rows: {why}. They are in the spool on the disk, and the daemon keeps sending them",
            status.spool.pending_rows
        );
        Err(StoreError::new(ErrorKind::Unavailable, operation))
    }

    /// Closes the store. With Cassandra, first waits a moment for pending rows to be acknowledged.
    pub(super) async fn close(self) -> Result<(), Failure> {
        match self {
            Self::Embedded(store) => store.close().map_err(failure),
            Self::Cassandra(cassandra) => {
                cassandra.close().await.context("cannot close the store").map_err(super::internal)
            }
        }
    }
}

/// Updates the gauges of the store at once and at each `MEASURE` interval until `stop`.
async fn measure(store: EmbeddedStore, stop: CancellationToken) {
    loop {
        let store = store.clone();
        let _ = tokio::task::spawn_blocking(move || store.measure()).await;
        if stop.run_until_cancelled(tokio::time::sleep(MEASURE)).await.is_none() {
            return;
        }
    }
}

/// Drops expired points and merges closed time buckets at each `MAINTENANCE` interval until `stop`.
async fn maintain(store: EmbeddedStore, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(MAINTENANCE)).await.is_some() {
        let (store, stop) = (store.clone(), stop.clone());
        let job = tokio::task::spawn_blocking(move || store.maintain(&mut |_| !stop.is_cancelled()));
        match job.await {
            Ok(Ok(report)) if report != Default::default() => tracing::info!(
                expired_buckets = report.expired_buckets,
                merged_buckets = report.merged_buckets,
                merged_points = report.merged_points,
                bytes_before = report.bytes_before,
                bytes_after = report.bytes_after,
                failed_buckets = report.failed_buckets,
                "old points were dropped and blocks merged"
            ),
            Ok(Err(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "maintenance of the embedded store failed; the next interval tries again"
                );
            }
            _ => {}
        }
    }
}

/// Opens the store. If a power cut has damaged its log, the log is cut off at the damaged place.
fn open_embedded(
    config: &Config,
    clock: &Arc<dyn Clock>,
    registry: &Registry,
) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(config.store_dir(), config.store.embedded.clone(), Arc::clone(clock), registry)
}

fn failure(error: StoreError) -> Failure {
    let exit = if error.kind == ErrorKind::Corrupt { Exit::Data } else { Exit::Store };
    Failure::new(exit, error)
}
