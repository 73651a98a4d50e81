//! Verbs: what a command asks for. The daemon that holds the data directory runs a verb as a job ([`crate::runs`]); if
//! none does, the process of the command runs it itself. Either way it is the same code with the same [`Work`].
//!
//! To add one: a file in `verbs` with a type that implements [`Verb`], a line in [`crate::verbs::CATALOGUE`], and a file
//! in the binary's `commands` (`docs/decisions/jobs.md`).

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
    /// False if it may be the first to use a data directory.
    const NEEDS_DATA: bool = true;
    /// What a finished run answers. It is kept in memory with the job, so it holds numbers and a few examples, no
    /// long lists.
    type Answer: Serialize + DeserializeOwned + Send;

    /// Checks the parameters, before anything is started.
    ///
    /// # Errors
    /// Why they cannot be used.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Does the work. It reports to [`Work::progress`], and ends soon after [`Work::stop`] is cancelled. A run that was
    /// cancelled or killed leaves the store so that the same command can be given again.
    ///
    /// # Errors
    /// See [`VerbError`].
    async fn run(&self, work: &Work) -> Result<Self::Answer, VerbError>;
}

/// What a verb works with. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Work {
    /// The stores.
    pub stores: Stores,
    /// Finds metrics by glob or tag.
    pub names: Arc<dyn MetricNames>,
    /// Reads series as Graphite does, with what is in memory.
    pub source: Arc<dyn SeriesSource>,
    /// Takes points as from a sender.
    pub writer: Arc<dyn PointWriter>,
    /// Measures metrics; `None` if the store cannot.
    pub sizes: Option<Arc<dyn StageSizes>>,
    /// The context of maintenance jobs: the metrics that this process writes, the clock, the limits of jobs.
    pub context: Context,
    /// Stores and reads the history of metrics.
    pub histories: Arc<dyn Histories>,
    /// Connects to the tables of KairosDBs.
    pub kairosdbs: Arc<dyn KairosConnector>,
    /// Asks other Graphite servers.
    pub graphites: Arc<dyn GraphiteConnector>,
    /// Opens other stores.
    pub other_stores: Arc<dyn StoreConnector>,
    /// The events of the data directory.
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
    /// What the run shows of itself.
    pub progress: Tracker,
}

impl Work {
    /// Cancelled when the run is to end.
    pub fn stop(&self) -> &CancellationToken {
        &self.context.stop
    }

    /// The same work for one run: its own progress, and `stop` to end it.
    #[must_use]
    pub fn for_run(&self, stop: CancellationToken) -> Self {
        let context = Context { stop, ..self.context.clone() };
        Self { context, progress: Tracker::default(), ..self.clone() }
    }

    /// Fails if the run is to end.
    ///
    /// # Errors
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

/// Takes points as from a sender.
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
    /// The parameters cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// Another run does this work.
    #[error(
        "{0} is running already, in this process or another one; wait until it ends and run the command again"
    )]
    Taken(String),
    /// The run was cancelled.
    #[error("cancelled; the work done so far is kept. The same command continues with the rest")]
    Cancelled,
    /// A maintenance job failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The store failed in the middle of an import. The same command continues with the rest.
    #[error(
        "{}. Everything stored so far is kept. Remove the cause and run the same command again: it continues",
        with_causes(.0)
    )]
    Interrupted(StoreError),
    /// A disk has no room for the files of an import. The same command continues with the rest.
    #[error("the disk of {} is full: {why}. Make room and run the same command again: it \
             continues", path.display())]
    DiskFull {
        /// What was to be written.
        path: PathBuf,
        /// What is missing.
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
    /// Give other parameters.
    Invalid,
    /// Repeat the command: nothing failed.
    Cancelled,
    /// Repair the store or wait for it, and repeat the command.
    Store,
    /// Name other metrics: there are none like that.
    NotFound,
    /// Look at the files that the message names: they are damaged or missing.
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

    /// The error with all its causes.
    pub fn text(&self) -> String {
        with_causes(self)
    }
}

/// An error with all its causes.
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

/// What a run shows of itself while it works. Cloning shares it.
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

/// A moment of a [`Tracker`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// What is being done.
    pub phase: String,
    /// How much of it is done.
    pub done: u64,
    /// How much there is; `None` if that is not known.
    pub total: Option<u64>,
    /// `done` per second, since the phase began.
    pub rate: f64,
    /// A remark on the progress, for people.
    pub note: String,
}

impl Tracker {
    /// Begins a phase of which `total` is to be done, if that is known.
    pub fn begin(&self, phase: &str, total: Option<u64>) {
        let (done, note, began) = (0, String::new(), Instant::now());
        *self.lock() = Some(Phase { name: phase.to_owned(), done, total, note, began });
    }

    /// Notes that this much more is done.
    pub fn add(&self, more: u64) {
        if let Some(phase) = &mut *self.lock() {
            phase.done += more;
        }
    }

    /// Notes how much is done, and more about it for people.
    pub fn set(&self, done: u64, note: String) {
        if let Some(phase) = &mut *self.lock() {
            (phase.done, phase.note) = (done, note);
        }
    }

    /// What there is to show now.
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
