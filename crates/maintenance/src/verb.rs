//! Verbs, which carry out commands. The daemon that has the data directory open runs a verb as a job
//! ([`crate::runs`]). If there is no such daemon, the process of the command runs the verb itself. In both
//! cases the code is the same, with the same [`Work`].
//!
//! To add one: a file in `verbs` with a type that implements [`Verb`], a line in [`crate::verbs::CATALOGUE`],
//! and a file in the binary's `commands` (`docs/decisions/jobs.md`).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use plumbago_store::{FetchError, KairosConnector, SeriesSource, StageSizes, StoreError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::backup::{BackupError, DataFiles};
use crate::events::EventKeeper;
use crate::graphite::GraphiteConnector;
use crate::import::Histories;
use crate::job::{Context, JobError, Stores};
use crate::other_store::StoreConnector;
use crate::quotas::DirectoryQuotas;
use crate::schedule::JobLease;
use crate::select::MetricNames;

/// A piece of work on the store with its parameters, which are the fields of the type.
#[async_trait]
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
    /// The stores.
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
    /// Opens other stores.
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

    /// Returns an error if the run has to end.
    ///
    /// # Errors
    ///
    /// [`VerbError::Cancelled`] if the run has to end.
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
#[async_trait]
pub trait PointWriter: Send + Sync + std::fmt::Debug {
    /// Accepts a point, which can be read from then on unless the engine refuses it. Returns the canonical name.
    ///
    /// # Errors
    /// If the name is not valid, or the process is shutting down.
    async fn write(&self, name: &str, timestamp: u32, value: f64) -> Result<String, VerbError>;
}

/// Why a verb did not finish.
#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    /// The parameters are not valid.
    #[error("{0}")]
    Invalid(String),
    /// Another run is doing this work.
    #[error(
        "{0} is running already, in this process or another one; wait for its end and give the command again"
    )]
    Taken(String),
    /// The run was cancelled.
    #[error("cancelled; what was done until then stays. The same command continues with the rest")]
    Cancelled,
    /// A maintenance job failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The store failed in the middle of an import. The same command continues with the rest.
    #[error(
        "{}. What was stored until then stays. Remove the cause and give the same command again: it continues",
        with_causes(.0)
    )]
    Interrupted(StoreError),
    /// The disk is full, so the files of an import cannot be written. The same command continues with the
    /// rest.
    #[error("the disk of {} is full: {why}. Make room and give the same command again: it continues", path.display())]
    DiskFull {
        /// The path of the file.
        path: PathBuf,
        /// How much space is missing.
        why: String,
    },
    /// Points cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// No metric is selected.
    #[error("there is no such metric")]
    NotFound,
    /// A backup failed.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Something else failed.
    #[error("{0}")]
    Failed(String),
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Use other parameters.
    Invalid,
    /// Repeat the command: nothing failed.
    Cancelled,
    /// Repair the store or wait for it, and repeat the command.
    Store,
    /// Select other metrics, because none match.
    NotFound,
    /// Check the files that the message names, because they are damaged or missing.
    Data,
    /// Read the message.
    Failed,
}

impl VerbError {
    /// The kind of the error.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Invalid(_) | Self::Job(JobError::Selection { .. }) => FailureKind::Invalid,
            Self::Cancelled | Self::Job(JobError::Stopped { .. }) => FailureKind::Cancelled,
            Self::Taken(_) | Self::Store(_) | Self::Interrupted(_) | Self::Fetch(_) | Self::Job(_) => {
                FailureKind::Store
            }
            Self::DiskFull { .. } => FailureKind::Store,
            Self::NotFound => FailureKind::NotFound,
            Self::Backup(error) => match error {
                BackupError::Invalid(_) => FailureKind::Invalid,
                BackupError::Cancelled => FailureKind::Cancelled,
                BackupError::Damaged(_) | BackupError::NotFound(_) => FailureKind::Data,
                _ => FailureKind::Store,
            },
            Self::Failed(_) => FailureKind::Failed,
        }
    }

    /// The text of the error with all its causes.
    pub fn text(&self) -> String {
        with_causes(self)
    }
}

/// The text of an error with all its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A verb without its type, for the list of jobs.
#[async_trait]
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

#[async_trait]
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

/// The progress of a run. Clones share the same progress.
#[derive(Debug, Clone, Default)]
pub struct Tracker(Arc<Mutex<Option<Phase>>>);

#[derive(Debug)]
struct Phase {
    name: String,
    done: u64,
    total: Option<u64>,
    note: String,
    began: Instant,
}

/// The progress at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// The current phase of the job, as text.
    pub phase: String,
    /// How much of it is done.
    pub done: u64,
    /// The total amount of work; `None` if it is not known.
    pub total: Option<u64>,
    /// The average of `done` per second since the phase began.
    pub rate: f64,
    /// A remark on the progress, for people.
    pub note: String,
}

impl Tracker {
    /// Begins a phase with `total` items, if their number is known.
    pub fn begin(&self, phase: &str, total: Option<u64>) {
        let (done, note, began) = (0, String::new(), Instant::now());
        *self.lock() = Some(Phase { name: phase.to_owned(), done, total, note, began });
    }

    /// Notes that this many more items are done.
    pub fn add(&self, more: u64) {
        if let Some(phase) = &mut *self.lock() {
            phase.done += more;
        }
    }

    /// Notes how many items are done, with a remark for people.
    pub fn set(&self, done: u64, note: String) {
        if let Some(phase) = &mut *self.lock() {
            (phase.done, phase.note) = (done, note);
        }
    }

    /// The present progress.
    pub fn moment(&self) -> Moment {
        self.lock().as_ref().map_or_else(Moment::default, |phase| Moment {
            phase: phase.name.clone(),
            done: phase.done,
            total: phase.total,
            rate: phase.done as f64 / phase.began.elapsed().as_secs_f64().max(0.001),
            note: phase.note.clone(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Phase>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
