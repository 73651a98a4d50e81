//! Opens the stores of other configurations, so that an import can read their metrics.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::histories_in_tables;
use plumbago_maintenance::other_store::{SourceStore, StoreConnector};
use plumbago_maintenance::verb::VerbError;
use plumbago_model::{Clock, MetricConfig};
use plumbago_store::{
    ErrorKind, MetaPage, MetadataStore, MetricMeta, SchemaNeeds, SharedStore, StoreError, StoredMetric,
    WriterIdentity,
};
use plumbago_store_cassandra::CassandraStore;
use plumbago_telemetry::{Found, Registry};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::Core;
use super::at_rest::AtRest;
use super::backend::Keeper;
use crate::config::{self, Config, Loaded, StoreKind};
use crate::error::Failure;
use crate::held::is_held;

/// How long servers may take for their first answer.
const FIRST: Duration = Duration::from_secs(20);
/// How long it may take to store the points that only the journal of a data directory has.
const FLUSH: Duration = Duration::from_secs(3600);

/// Opens other stores in addition to the one of this process.
#[derive(Debug)]
pub(super) struct OtherStores {
    data_dir: PathBuf,
    keeper: Keeper,
    clock: Arc<dyn Clock>,
}

impl OtherStores {
    pub(super) fn new(config: &Config, core: &Core) -> Self {
        Self {
            data_dir: config.data_dir.clone(),
            keeper: core.keeper.clone(),
            clock: Arc::clone(&core.clock),
        }
    }

    async fn embedded(&self, loaded: Loaded) -> Result<Embedded, VerbError> {
        let dir = config::shown_dir(&loaded.config.data_dir);
        if is_same_directory(&dir, &self.data_dir) {
            let why =
                "is the data directory of this configuration too; a store cannot be imported into itself";
            return Err(VerbError::Invalid(format!("{} {why}", dir.display())));
        }
        if !loaded.config.store_dir().is_dir() {
            return Err(unavailable(&dir, "it has no directory store: no daemon has used it"));
        }
        if is_held(&loaded.config) {
            let why = "a daemon uses it; stop that daemon first, or import from it with `plumbago import-graphite`, \
                       which brings no counts";
            return Err(unavailable(&dir, why));
        }
        let clock = Arc::clone(&self.clock);
        match apart(move || open(loaded, clock)).await? {
            Ok(rest) => Ok(Embedded { rest, dir }),
            Err(failure) => Err(unavailable(&dir, &failure.to_string())),
        }
    }

    async fn tables(&self, config: &plumbago_store_cassandra::Config) -> Result<Tables, VerbError> {
        // Nothing is written, so the writer id does not matter.
        let identity = WriterIdentity::new(config.replica, 0);
        let store = CassandraStore::connect(config, identity, Arc::clone(&self.clock), &Registry::new())?;
        answers(&store).await?;
        let title = format!("the keyspace {} at {}", config.keyspace, config.contact_points.join(", "));
        if let Some(own) = self.keeper.cassandra() {
            answers(own).await?;
            if own.shares_tables_with(&store)? {
                let why = "is that of this configuration too; a store cannot be imported into itself";
                return Err(VerbError::Invalid(format!("{title} {why}")));
            }
        }
        let needs = SchemaNeeds { retentions: Vec::new(), finds_names: false };
        let status = store.check_schema(&needs).await?;
        if let Some(why) = status.fatal.first() {
            let error = StoreError::with(ErrorKind::Invalid, format!("read {title}"), why.clone());
            return Err(error.into());
        }
        let clock = Arc::clone(&self.clock);
        Ok(Tables { store, title, clock, ignores_x_files_factor: status.ignores_x_files_factor })
    }
}

#[boxed_futures]
impl StoreConnector for OtherStores {
    async fn open(&self, file: &Path, directory: &Path) -> Result<Box<dyn SourceStore>, VerbError> {
        let loaded = config::load_other(file).map_err(|problems| VerbError::Invalid(problems.to_string()));
        let mut loaded = loaded?;
        loaded.config.data_dir = directory.join(&loaded.config.data_dir);
        match loaded.config.store.kind {
            StoreKind::Embedded => Ok(Box::new(self.embedded(loaded).await?)),
            StoreKind::Cassandra => Ok(Box::new(self.tables(&loaded.config.store.cassandra).await?)),
        }
    }
}

/// Runs blocking work on a separate thread.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, VerbError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| VerbError::Failed(error.to_string()))
}

/// Opens a data directory and loads its content.
fn open(loaded: Loaded, clock: Arc<dyn Clock>) -> Result<AtRest, Failure> {
    let rest = AtRest::open(loaded, clock)?;
    Handle::current().block_on(async move {
        let found = load(&rest).await;
        if let Err(failure) = found {
            // Closed to release the lock of the data directory.
            let _ = rest.close().await;
            return Err(failure);
        }
        Ok(rest)
    })
}

/// Loads the names and points of a data directory. Points that only its journal has are stored first, so that no name
/// is missing.
async fn load(rest: &AtRest) -> Result<(), Failure> {
    let found = rest.start().await?;
    if found.replayed == 0 {
        return Ok(());
    }
    match timeout(FLUSH, rest.core.engine.flush_all()).await {
        Ok(flushed) => flushed.map_err(|error| super::internal(error.into())),
        Err(_) => Err(super::internal(anyhow!(
            "points in the journal of the other store were not stored within an hour; start and stop its daemon, and run the command again"
        ))),
    }
}

/// Waits until servers answer.
async fn answers(store: &CassandraStore) -> Result<(), StoreError> {
    match timeout(FIRST, store.wait()).await {
        Ok(waited) => waited,
        Err(_) => {
            let why = store.trouble().unwrap_or_else(|| "no server answers".to_owned());
            Err(StoreError::with(
                ErrorKind::Unavailable,
                format!("reach the keyspace {}", store.keyspace()),
                why,
            ))
        }
    }
}

fn unavailable(dir: &Path, why: &str) -> VerbError {
    StoreError::with(ErrorKind::Unavailable, format!("open the data directory {}", dir.display()), why).into()
}

fn is_same_directory(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// A data directory that no daemon uses.
struct Embedded {
    rest: AtRest,
    dir: PathBuf,
}

#[boxed_futures]
impl SourceStore for Embedded {
    fn identity(&self) -> String {
        format!("the data directory {}", self.dir.display())
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        self.rest.core.stores.metadata.scan(position, limit).await
    }

    async fn metrics(&self, names: &[&str]) -> Result<Vec<Option<StoredMetric>>, StoreError> {
        self.rest.core.engine.stored_metrics(names).await
    }

    async fn close(self: Box<Self>) -> Result<Vec<String>, VerbError> {
        let Self { rest, dir } = *self;
        let line = |Found { path, text }: Found| format!("{} is damaged: {text}", path.display());
        let damage = rest.core.damage().list().into_iter().map(line).collect();
        let closed = apart(move || Handle::current().block_on(rest.close())).await?;
        closed.map_err(|failure| {
            VerbError::Failed(format!("cannot close the data directory {}: {failure}", dir.display()))
        })?;
        Ok(damage)
    }
}

/// Tables in Cassandra, which daemons may be using.
struct Tables {
    store: CassandraStore,
    title: String,
    clock: Arc<dyn Clock>,
    /// Whether BigGraphite made the tables. Readers of such tables ignore the xFilesFactor.
    ignores_x_files_factor: bool,
}

impl Tables {
    /// A metric with the settings that apply when it is read.
    fn as_read(&self, metric: &MetricMeta) -> MetricMeta {
        if !self.ignores_x_files_factor {
            return metric.clone();
        }
        let config = MetricConfig { x_files_factor: 0.0, ..(*metric.config).clone() };
        MetricMeta { config: Arc::new(config), ..metric.clone() }
    }
}

#[boxed_futures]
impl SourceStore for Tables {
    fn identity(&self) -> String {
        self.title.clone()
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        self.store.scan(position, limit).await
    }

    async fn metrics(&self, names: &[&str]) -> Result<Vec<Option<StoredMetric>>, StoreError> {
        let found = self.store.get(names).await?;
        let metrics: Vec<MetricMeta> = found.iter().flatten().map(|metric| self.as_read(metric)).collect();
        let histories = histories_in_tables(&self.store, &metrics, self.clock.now()).await?;
        let mut histories = histories.into_iter();
        let stored = |metric: Option<MetricMeta>| {
            let history = metric.and_then(|_| histories.next())?;
            Some(StoredMetric { history, ahead: Vec::new() })
        };
        Ok(found.into_iter().map(stored).collect())
    }

    async fn close(self: Box<Self>) -> Result<Vec<String>, VerbError> {
        Ok(Vec::new())
    }
}
