//! What is behind the engine: the embedded store, or Cassandra with a spool in front of it.

mod cassandra;
mod follow;
mod identity;
mod load;
mod names;
mod remote;
mod sasi;
mod turn;

use std::sync::Arc;

use anyhow::Context;
use plumbago_api::NameFinder;
use plumbago_engine::{Engine, NameCheck};
use plumbago_maintenance::{MyTurn, Stores, Turn};
use plumbago_model::Clock;
use plumbago_store::{DirectoryStore, ErrorKind, FlushStore, MetadataStore, PointStore, StoreError};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_embedded::EmbeddedStore;
use plumbago_telemetry::Registry;
use tokio_util::sync::CancellationToken;

use self::cassandra::Cassandra;
use self::turn::LeaseTurn;
use super::{MAINTENANCE, rules};
use crate::config::{Config, StoreKind};
use crate::error::{Exit, Failure};

/// The stores, and what keeps them.
pub(super) struct Backend {
    pub(super) points: Arc<dyn PointStore>,
    pub(super) flush: Arc<dyn FlushStore>,
    pub(super) metadata: Arc<dyn MetadataStore>,
    pub(super) keeper: Keeper,
}

/// What has to be looked after while the daemon runs.
#[derive(Debug, Clone)]
pub(super) enum Keeper {
    Embedded(EmbeddedStore),
    Cassandra(Box<Cassandra>),
}

impl Backend {
    /// Opens what the settings name. Does not wait for a server.
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
    /// The stores that maintenance jobs work on. Directories have no rows of their own on the local
    /// disk, and rows in Cassandra expire by themselves.
    pub(super) fn stores(&self) -> Stores {
        let (metadata, points) = (Arc::clone(&self.metadata), Arc::clone(&self.points));
        let states = Some(Arc::clone(&self.flush));
        match &self.keeper {
            Keeper::Embedded(store) => {
                let rows = Arc::new(store.clone());
                let listing = Arc::clone(&metadata);
                Stores { rows, metadata, listing, points, directories: None, states, delete_points: true }
            }
            Keeper::Cassandra(cassandra) => {
                let rows = Arc::new(cassandra.store.clone());
                let directories: Option<Arc<dyn DirectoryStore>> = Some(Arc::clone(&rows) as _);
                // The names take a metric that has metadata for whole, and write nothing.
                let listing: Arc<dyn MetadataStore> = rows.clone();
                Stores { rows, metadata, listing, points, directories, states, delete_points: false }
            }
        }
    }
}

impl Keeper {
    /// Starts what runs beside the engine.
    pub(super) fn spawn_chores(&self, engine: &Engine, stop: &CancellationToken) {
        match self {
            Self::Embedded(store) => drop(tokio::spawn(maintain(store.clone(), stop.clone()))),
            Self::Cassandra(cassandra) => cassandra.spawn_chores(engine, stop),
        }
    }

    /// Which names the store can hold.
    pub(super) fn name_check(&self) -> NameCheck {
        match self {
            Self::Embedded(_) => Arc::new(|_| Ok(())),
            Self::Cassandra(cassandra) => cassandra.name_check(),
        }
    }

    /// Who finds names where they are not loaded.
    pub(super) fn finder(&self) -> Option<Arc<dyn NameFinder>> {
        match self {
            Self::Embedded(_) => None,
            Self::Cassandra(cassandra) => {
                cassandra.by_sasi.then(|| Arc::new(sasi::Sasi(cassandra.store.clone())) as _)
            }
        }
    }

    /// Where it is noted which metrics are read.
    pub(super) fn notes_reads(&self) -> Option<CassandraStore> {
        match self {
            Self::Embedded(_) => None,
            Self::Cassandra(cassandra) => cassandra.notes_reads.then(|| cassandra.store.clone()),
        }
    }

    /// Who of the daemons on this store may run a job.
    pub(super) fn turn(&self) -> Arc<dyn Turn> {
        match self {
            Self::Embedded(_) => Arc::new(MyTurn),
            Self::Cassandra(cassandra) => {
                Arc::new(LeaseTurn::new(cassandra.store.clone(), cassandra::host()))
            }
        }
    }

    /// Replica and writer, where others write to the same store.
    pub(super) fn writer(&self) -> Option<(u8, u16)> {
        match self {
            Self::Embedded(_) => None,
            Self::Cassandra(cassandra) => {
                let identity = cassandra.store.identity();
                Some((identity.replica(), identity.writer()))
            }
        }
    }

    /// Why the store is not ready, in plain words.
    pub(super) fn reasons(&self) -> Vec<String> {
        match self {
            Self::Embedded(_) => Vec::new(),
            Self::Cassandra(cassandra) => cassandra.reasons(),
        }
    }

    /// What does not work although it is ready.
    pub(super) fn warnings(&self) -> Vec<String> {
        match self {
            Self::Embedded(_) => Vec::new(),
            Self::Cassandra(cassandra) => cassandra.warnings(),
        }
    }

    /// Sends again what a remote store has acknowledged since then (seconds since the epoch), as far as
    /// it is still kept; gives the bytes of it.
    pub(super) fn replay(&self, since: i64) -> anyhow::Result<u64> {
        match self {
            Self::Embedded(_) => anyhow::bail!("only a remote store has something to be sent again"),
            Self::Cassandra(cassandra) => Ok(cassandra.spooled.replay(since.saturating_mul(1_000_000))?),
        }
    }

    /// The end: what is on its way gets a moment to arrive.
    pub(super) async fn close(self) -> Result<(), Failure> {
        match self {
            Self::Embedded(store) => store.close().map_err(failure),
            Self::Cassandra(cassandra) => cassandra.close().await.context("close").map_err(super::internal),
        }
    }
}

/// Drops expired points and merges closed days, from time to time.
async fn maintain(store: EmbeddedStore, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(MAINTENANCE)).await.is_some() {
        let (store, stop) = (store.clone(), stop.clone());
        let job = tokio::task::spawn_blocking(move || store.maintain(&mut |_| !stop.is_cancelled()));
        match job.await {
            Ok(Ok(report)) if report != Default::default() => tracing::info!(?report, "store maintained"),
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "store not maintained");
            }
            _ => {}
        }
    }
}

/// Opens the store; a log torn by power loss is cut at its hole once.
fn open_embedded(
    config: &Config,
    clock: &Arc<dyn Clock>,
    registry: &Registry,
) -> Result<EmbeddedStore, StoreError> {
    let dir = config.store_dir();
    let open = || EmbeddedStore::open(&dir, config.store.embedded.clone(), Arc::clone(clock), registry);
    match open() {
        Err(error) if error.kind == ErrorKind::Corrupt && plumbago_journal::repair(&dir).is_ok() => open(),
        result => result,
    }
}

fn failure(error: StoreError) -> Failure {
    let exit = if error.kind == ErrorKind::Corrupt { Exit::Data } else { Exit::Store };
    Failure::new(exit, error)
}
