//! Verbs, which carry out commands. The daemon that has the data directory open runs a verb as a job
//! ([`crate::runs`]). If there is no such daemon, the process of the command runs the verb itself. In both
//! cases the code is the same, with the same [`Work`].
//!
//! To add one: a file in `verbs` with a type that implements [`Verb`], a line in [`crate::verbs::CATALOGUE`],
//! and a file in the binary's `commands` (`docs/decisions/jobs.md`).

use std::path::PathBuf;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{KairosConnector, SeriesSource, StageSizes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::backup::DataFiles;
use crate::event_keeper::EventKeeper;
use crate::graphite_source::GraphiteConnector;
use crate::histories::Histories;
use crate::job::{Context, Stores};
use crate::quotas::DirectoryQuotas;
use crate::schedule::JobLease;
use crate::select::MetricNames;
use crate::source_store::StoreConnector;

pub use crate::tracker::{Moment, Tracker};
pub use crate::verb_error::{FailureKind, VerbError};

/// A piece of work on the store with its parameters, which are the fields of the type.
#[boxed_futures]
pub trait Verb: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the job.
    const NAME: &'static str;
    /// Whether the verb needs an existing data directory. If `false`, the verb may be the first to use it.
    const NEEDS_DATA: bool = true;
    /// The answer of a finished run. It is kept in memory with the job, so it contains numbers and a few
    /// examples, but no long lists.
    type Answer: Serialize + DeserializeOwned + Send;

    /// Checks the parameters before anything is started.
    ///
    /// # Errors
    /// Why the parameters are not valid.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Whether the run only counts what it would do. For such a run no data directory is created.
    fn is_dry_run(&self) -> bool {
        false
    }

    /// Does the work. It reports to [`Work::progress`], and ends soon after [`Work::stop`] is cancelled. A
    /// cancelled or killed run leaves the store in a state in which the same command can be repeated.
    ///
    /// # Errors
    /// See [`VerbError`].
    async fn run(&self, work: &Work) -> Result<Self::Answer, VerbError>;
}

/// What a verb works with. Clones share the same parts.
#[derive(Debug, Clone)]
pub struct Work {
    /// The stores of names, points and state rows.
    pub stores: Stores,
    /// Finds metrics by glob or tag.
    pub names: Arc<dyn MetricNames>,
    /// Reads series as Graphite does, including points in memory.
    pub source: Arc<dyn SeriesSource>,
    /// Accepts points as if from a sender.
    pub writer: Arc<dyn PointWriter>,
    /// Measures metrics; `None` if the store cannot measure them.
    pub sizes: Option<Arc<dyn StageSizes>>,
    /// The context of maintenance jobs: the metrics that this process writes, the clock, the limits of jobs.
    pub context: Context,
    /// Stores and reads the history of metrics.
    pub histories: Arc<dyn Histories>,
    /// Connects to the tables of KairosDBs.
    pub kairosdbs: Arc<dyn KairosConnector>,
    /// Connects to other Graphite servers.
    pub graphites: Arc<dyn GraphiteConnector>,
    /// Opens the stores of other configurations.
    pub other_stores: Arc<dyn StoreConnector>,
    /// Stores the events of the data directory.
    pub events: Arc<dyn EventKeeper>,
    /// Decides which process runs a maintenance job.
    pub lease: Arc<dyn JobLease>,
    /// The section `[maintenance]`.
    pub config: crate::Config,
    /// The files of the data directory, for backups.
    pub files: Arc<dyn DataFiles>,
    /// The directory for files that jobs keep.
    pub dir: PathBuf,
    /// The quotas of directories.
    pub quotas: Arc<dyn DirectoryQuotas>,
    /// Receives the progress of the run.
    pub progress: Tracker,
}

impl Work {
    /// Cancelled when the run has to end.
    pub fn stop(&self) -> &CancellationToken {
        &self.context.stop
    }

    /// Returns the same work for one run, with separate progress and with `stop` to end it.
    #[must_use]
    pub fn for_run(&self, stop: CancellationToken) -> Self {
        let context = Context { stop, ..self.context.clone() };
        Self { context, progress: Tracker::default(), ..self.clone() }
    }

    /// Checks whether the run was cancelled.
    ///
    /// # Errors
    ///
    /// [`VerbError::Cancelled`] if so.
    pub fn go_on(&self) -> Result<(), VerbError> {
        if self.stop().is_cancelled() { Err(VerbError::Cancelled) } else { Ok(()) }
    }

    /// Waits until a store on other machines has all rows, or until the run is cancelled.
    ///
    /// # Errors
    /// If the store does not get the rows.
    pub(crate) async fn all_sent(&self) -> Result<(), VerbError> {
        self.progress.begin("waiting until the servers have all rows", None);
        self.histories.all_sent(self.stop()).await?;
        Ok(())
    }
}

/// Accepts points as if from a sender.
#[boxed_futures]
pub trait PointWriter: Send + Sync + std::fmt::Debug {
    /// Accepts a point, which can be read from then on unless the engine refuses it. Returns the canonical name.
    ///
    /// # Errors
    /// If the name is not valid, or the process is shutting down.
    async fn write(&self, name: &str, timestamp: u32, value: f64) -> Result<String, VerbError>;
}

/// A verb without its type, for the list of jobs.
#[boxed_futures]
pub trait AnyVerb: Send + Sync {
    /// The name of the job.
    fn name(&self) -> &'static str;

    /// The parameters.
    fn parameters(&self) -> Value;

    /// As [`Verb::run`].
    ///
    /// # Errors
    /// See [`VerbError`].
    async fn run(&self, work: &Work) -> Result<Value, VerbError>;
}

#[boxed_futures]
impl<V: Verb> AnyVerb for V {
    fn name(&self) -> &'static str {
        V::NAME
    }

    fn parameters(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    async fn run(&self, work: &Work) -> Result<Value, VerbError> {
        let answer = Verb::run(self, work).await?;
        serde_json::to_value(answer).map_err(|error| VerbError::Failed(error.to_string()))
    }
}
