//! Jobs, their context and their errors.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Clock, GlobError};
use plumbago_store::{
    DirectoryStore, FlushStore, MetadataStore, PointStore, RowStore, Share, SharedWindows, StoreError,
};
use plumbago_telemetry::Registry;
use tokio_util::sync::CancellationToken;

use crate::checkpoint::Checkpoints;
use crate::live::LiveMetrics;
use crate::rate::Rate;
use crate::report::Report;
use crate::selection::Selection;
use crate::stats::Stats;

/// The stores that jobs work on.
#[derive(Debug, Clone)]
pub struct Stores {
    /// The rows of metrics.
    pub rows: Arc<dyn RowStore>,
    /// The metadata as readers see it, including the local copy of the names.
    pub metadata: Arc<dyn MetadataStore>,
    /// The metadata without the local copy. A creation here writes every missing row of the metric, even if
    /// the local copy has the metric.
    pub listing: Arc<dyn MetadataStore>,
    /// The store of the points.
    pub points: Arc<dyn PointStore>,
    /// Rows of directories; `None` if the store has none.
    pub directories: Option<Arc<dyn DirectoryStore>>,
    /// State rows; `None` if a running daemon deletes them itself.
    pub states: Option<Arc<dyn FlushStore>>,
    /// The windows, by writer; `None` if only one daemon writes to the store.
    pub windows: Option<Arc<dyn SharedWindows>>,
    /// Whether points have to be deleted with their metric. If not, they expire by themselves.
    pub delete_points: bool,
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Context {
    /// The metrics that this process is writing.
    pub live: Arc<dyn LiveMetrics>,
    /// The clock from which the age of rows is computed.
    pub clock: Arc<dyn Clock>,
    /// Whether to report the changes without making them.
    pub dry_run: bool,
    /// The part of all rows that this run handles.
    pub share: Share,
    /// The windows that this run compares, if it is a repair of windows.
    pub selection: Selection,
    /// Rows younger than this are not deleted.
    pub grace: Duration,
    /// How long after a deletion the job checks the name again.
    pub settle: Duration,
    /// The largest number of rows read per second; 0 for no limit.
    pub rows_per_second: u32,
    /// Stops the run. The next run continues from its position.
    pub stop: CancellationToken,
    /// Where the position of the run is saved.
    pub checkpoints: Checkpoints,
    /// Called after each page.
    pub progress: Progress,
    /// The registry for the job's self-metrics.
    pub registry: Registry,
}

/// Receives the report of a running job.
#[derive(Clone)]
pub struct Progress(pub Arc<dyn Fn(&Report) + Send + Sync>);

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(|_| {}))
    }
}

impl Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// Why a run ended early. Its changes stay, and the next run continues from its position.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The store failed repeatedly.
    #[error("failed to run {job}")]
    Store {
        /// The name of the job.
        job: &'static str,
        /// The last error.
        source: StoreError,
    },
    /// The glob of the selection is not valid.
    #[error("cannot select metrics for {job}")]
    Selection {
        /// The name of the job.
        job: &'static str,
        /// The problem of the glob.
        source: GlobError,
    },
    /// The run was stopped.
    #[error("{job} was stopped")]
    Stopped {
        /// The name of the job.
        job: &'static str,
    },
    /// The position of a job cannot be saved.
    #[error("failed to save the position of {job}; check the directory maintenance in data_dir")]
    Checkpoint {
        /// The name of the job.
        job: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

/// A job that handles all rows of one kind.
#[boxed_futures]
pub trait Job: Send + Sync + Debug {
    /// The name of the job, also in the names of its files and in the labels of its self-metrics.
    fn name(&self) -> &'static str;

    /// The name of the lease that a run needs. Jobs that would disturb each other share one lease.
    fn lease(&self) -> &'static str {
        self.name()
    }

    /// Whether a run at the job's interval has anything to do; `now` is in seconds since the epoch.
    fn is_due(&self, _now: i64) -> bool {
        true
    }

    /// Handles the rows of the context's share, from the position where the last run ended.
    ///
    /// # Errors
    /// If the store failed repeatedly, the run was stopped, or its position cannot be saved.
    async fn run(&self, context: &Context) -> Result<Report, JobError>;
}

impl Context {
    /// A context for all rows, without limits, that saves no position.
    pub fn new(live: Arc<dyn LiveMetrics>, clock: Arc<dyn Clock>) -> Self {
        let crate::Config { grace, settle, .. } = crate::Config::default();
        Self {
            live,
            clock,
            dry_run: false,
            share: Share::ALL,
            selection: Selection::default(),
            grace,
            settle,
            rows_per_second: 0,
            stop: CancellationToken::new(),
            checkpoints: Checkpoints::none(),
            progress: Progress::default(),
            registry: Registry::new(),
        }
    }

    /// Only rows written up to this time may be deleted; microseconds since the epoch.
    pub(crate) fn as_of_us(&self) -> i64 {
        let grace_ms = i64::try_from(self.grace.as_millis()).unwrap_or(i64::MAX);
        self.clock.now_ms().saturating_sub(grace_ms).saturating_mul(1000)
    }

    pub(crate) fn rate(&self) -> Rate {
        Rate::new(self.rows_per_second)
    }

    pub(crate) fn stats(&self, job: &str) -> Stats {
        Stats::new(&self.registry, job)
    }
}
