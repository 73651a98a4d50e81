//! The context of maintenance jobs and verbs: how they learn which metrics are in use, and how they find names.

use std::sync::Arc;

use plumbago_api::KeptAnswers;
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::Engine;
use plumbago_index::{FindError, FindLimits, Index};
use plumbago_maintenance::checkpoint::Checkpoints;
use plumbago_maintenance::verb::{PointWriter, Tracker, VerbError, Work};
use plumbago_maintenance::{Config, Context, JobLease, LiveMetrics};
use plumbago_model::{PointBatch, has_glob};
use plumbago_store::{ErrorKind, FetchError, MetricMeta, SeriesSource, StoreError};
use plumbago_store_cassandra::KairosServers;

use super::events::Events;
use super::histories::EngineHistories;
use super::other_stores::OtherStores;
use super::{Core, Files, names};

/// Tells jobs which metrics the engine writes.
#[derive(Debug)]
struct Alive {
    engine: Engine,
    index: Arc<Index>,
    answers: KeptAnswers,
}

#[boxed_futures]
impl LiveMetrics for Alive {
    async fn are_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError> {
        self.engine.are_written(names, since).await.map_err(stopping)
    }

    fn is_known_above(&self, directory: &str) -> bool {
        let limits = FindLimits { results_max: 1, visited_max: 1000 };
        let found = || self.index.find(&format!("{directory}.*"), &limits);
        !has_glob(directory)
            && match found() {
                Ok(nodes) => !nodes.is_empty(),
                Err(FindError::TooManyResults(_)) => true,
                Err(_) => false,
            }
    }

    async fn forget(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError> {
        self.engine.forget(names, since).await.map_err(stopping)
    }

    async fn closed_until(&self, names: &[&str]) -> Result<Vec<i64>, StoreError> {
        self.engine.closed_until(names).await.map_err(stopping)
    }

    async fn begin_deletions(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        self.engine.begin_deletions(names).await.map_err(stopping)
    }

    async fn end_deletions(&self, names: &[&str]) -> Result<(), StoreError> {
        self.answers.forget();
        self.engine.end_deletions(names).await.map_err(stopping)
    }

    async fn put_back(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        self.engine.adopt(metrics).await.map_err(stopping)
    }
}

/// Passes points to the engine.
#[derive(Debug)]
struct Writer(Engine);

#[boxed_futures]
impl PointWriter for Writer {
    async fn write(&self, name: &str, timestamp: u32, value: f64) -> Result<String, VerbError> {
        let name = super::tagging::canonical_name(name).map_err(VerbError::Invalid)?;
        let mut batch = PointBatch::with_capacity(1);
        batch.push(&name, timestamp, value);
        match self.0.push(batch).await {
            true => Ok(name),
            false => Err(VerbError::Failed("the process is stopping".to_owned())),
        }
    }
}

fn stopping(error: FetchError) -> StoreError {
    StoreError::with(ErrorKind::Closed, "ask the engine", error)
}

impl Core {
    /// Returns the context in which this process runs its jobs.
    pub(crate) fn job_context(&self, config: &crate::config::Config) -> Context {
        let Config { grace, settle, rows_per_second, .. } = config.maintenance;
        let live = Alive {
            engine: self.engine.clone(),
            index: Arc::clone(&self.index),
            answers: self.answers.clone(),
        };
        Context {
            grace,
            settle,
            rows_per_second,
            checkpoints: Checkpoints::new(config.maintenance_dir()),
            registry: self.registry.clone(),
            ..Context::new(Arc::new(live), Arc::clone(&self.clock))
        }
    }

    /// Returns the reader for verbs, which does not include the points that other daemons have in memory.
    fn verb_source(&self) -> Arc<dyn SeriesSource> {
        let reader = self.engine.reader();
        match self.keeper.finder() {
            Some(_) => Arc::new(reader.with_metadata(Arc::clone(&self.stores.metadata))),
            None => Arc::new(reader),
        }
    }

    /// Returns everything that verbs need. `lease` decides which process runs a maintenance job.
    pub(crate) fn work(
        &self,
        config: &crate::config::Config,
        lease: Arc<dyn JobLease>,
        events: Events,
    ) -> Work {
        Work {
            stores: self.stores.clone(),
            source: self.verb_source(),
            writer: Arc::new(Writer(self.engine.clone())),
            sizes: self.keeper.sizes(),
            names: Arc::new(names::Names { index: Arc::clone(&self.index), finder: self.keeper.finder() }),
            context: self.job_context(config),
            histories: Arc::new(EngineHistories {
                engine: self.engine.clone(),
                rules: self.rules.clone(),
                keeper: self.keeper.clone(),
                answers: self.answers.clone(),
            }),
            kairosdbs: Arc::new(KairosServers(config.store.cassandra.clone())),
            graphites: Arc::new(plumbago_graphite_client::Client),
            other_stores: Arc::new(OtherStores::new(config, self)),
            events: Arc::new(events),
            lease,
            files: Arc::new(Files::live(config, self)),
            config: config.maintenance.clone(),
            dir: config.maintenance_dir(),
            quotas: Arc::new(super::quotas::Uses {
                quotas: Arc::clone(self.engine.quotas()),
                clock: Arc::clone(&self.clock),
            }),
            progress: Tracker::default(),
        }
    }
}
