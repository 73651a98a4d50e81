//! Sets up the maintenance jobs: which jobs run, on which stores, and how they learn which metrics are in
//! use.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plumbago_engine::Engine;
use plumbago_index::{FindError, FindLimits, Index};
use plumbago_maintenance::checkpoint::Checkpoints;
use plumbago_maintenance::directories::{CleanDirectories, RepairDirectories};
use plumbago_maintenance::expire::Expire;
use plumbago_maintenance::rows::CleanRows;
use plumbago_maintenance::windows::{RepairNewWriter, RepairWindows};
use plumbago_maintenance::{Config, Context, Job, LiveMetrics, Stores};
use plumbago_model::has_glob;
use plumbago_store::{ErrorKind, FetchError, StoreError};

use super::Core;

/// How often it is checked whether windows of a new writer id can be repaired.
const NEW_WRITER_EVERY: Duration = Duration::from_secs(300);

/// Tells jobs which metrics the engine writes.
#[derive(Debug)]
struct Alive {
    engine: Engine,
    index: Arc<Index>,
}

#[async_trait]
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
}

fn stopping(error: FetchError) -> StoreError {
    StoreError::with(ErrorKind::Closed, "ask the engine", error)
}

impl Core {
    /// Returns the context in which this process runs its jobs.
    pub(crate) fn job_context(&self, config: &crate::config::Config) -> Context {
        let Config { grace, settle, rows_per_second, .. } = config.maintenance;
        let live = Alive { engine: self.engine.clone(), index: Arc::clone(&self.index) };
        Context {
            grace,
            settle,
            rows_per_second,
            checkpoints: Checkpoints::new(config.maintenance_dir()),
            registry: self.registry.clone(),
            ..Context::new(Arc::new(live), Arc::clone(&self.clock))
        }
    }
}

/// Returns all jobs that these stores support, with their intervals. A zero interval switches a job off. Jobs
/// keep their files in `dir`.
pub(crate) fn jobs(config: &Config, stores: &Stores, dir: &Path) -> Vec<(Arc<dyn Job>, Duration)> {
    let clean_rows = CleanRows { rows: stores.rows.clone(), metadata: stores.listing.clone() };
    let mut jobs: Vec<(Arc<dyn Job>, Duration)> = vec![(Arc::new(clean_rows), config.clean_rows_every)];
    if let Some(directories) = stores.directories.clone() {
        let repair = RepairDirectories { rows: stores.rows.clone(), directories: directories.clone() };
        jobs.push((Arc::new(CleanDirectories(directories)), config.clean_directories_every));
        jobs.push((Arc::new(repair), config.repair_directories_every));
    }
    if let Some(windows) = stores.windows.clone() {
        let (rows, points) = (stores.rows.clone(), stores.points.clone());
        let repair = RepairWindows { rows, points, windows, after: config.repair_windows_after };
        let new_writer = RepairNewWriter { repair: repair.clone(), file: dir.join("new-writer.json") };
        jobs.push((Arc::new(repair), config.repair_windows_every));
        jobs.push((Arc::new(new_writer), NEW_WRITER_EVERY));
    }
    if !config.expire_after.is_zero() {
        let expire = Expire { stores: stores.clone(), after: config.expire_after };
        jobs.push((Arc::new(expire), config.expire_every));
    }
    jobs
}
