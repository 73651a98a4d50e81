//! What a job is, what it works with, and what it tells.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plumbago_model::Clock;
use plumbago_store::{DirectoryStore, FlushStore, MetadataStore, PointStore, RowStore, Share, StoreError};
use plumbago_telemetry::Registry;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::checkpoint::Checkpoints;
use crate::live::LiveMetrics;
use crate::rate::Rate;
use crate::stats::Stats;

/// The stores that jobs work on.
#[derive(Debug, Clone)]
pub struct Stores {
    /// The rows of metrics.
    pub rows: Arc<dyn RowStore>,
    /// Metrics as readers see them.
    pub metadata: Arc<dyn MetadataStore>,
    /// The same past any copy that readers have: a creation writes whatever rows of a metric are missing,
    /// also of one that readers see.
    pub listing: Arc<dyn MetadataStore>,
    /// Points.
    pub points: Arc<dyn PointStore>,
    /// Rows of directories, where the store has them.
    pub directories: Option<Arc<dyn DirectoryStore>>,
    /// State rows, when no process runs that would delete them itself.
    pub states: Option<Arc<dyn FlushStore>>,
    /// True when points must be deleted with their metric; false where they expire by themselves.
    pub delete_points: bool,
}

/// How a run goes about it.
#[derive(Debug, Clone)]
pub struct Context {
    /// What is alive.
    pub live: Arc<dyn LiveMetrics>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Only tells what it would do.
    pub dry_run: bool,
    /// Its part of the rows.
    pub share: Share,
    /// What was written in this time is left alone.
    pub grace: Duration,
    /// How long after a deletion it looks again.
    pub settle: Duration,
    /// Rows to look at in a second, at most; 0 for no limit.
    pub rows_per_second: u32,
    /// Ends it early; it goes on from there the next time.
    pub stop: CancellationToken,
    /// Where it notes how far it came.
    pub checkpoints: Checkpoints,
    /// Told after each page.
    pub progress: Progress,
    /// Where results are counted.
    pub registry: Registry,
}

/// Told how far a job came.
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

/// What a run has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The job.
    pub job: String,
    /// Rows it looked at.
    pub scanned: u64,
    /// What it did, or would do in a dry run, by the kind of thing.
    pub done: BTreeMap<String, u64>,
    /// What it left alone although it looked like work, by reason.
    pub spared: BTreeMap<String, u64>,
    /// A few names of each kind.
    pub examples: BTreeMap<String, Vec<String>>,
    /// True when it went on from where an earlier run had been ended.
    pub resumed: bool,
    /// True when it came to the end.
    pub finished: bool,
}

const EXAMPLES_MAX: usize = 5;

impl Report {
    /// Notes what was done with a name.
    pub(crate) fn note_done(&mut self, kind: &str, name: &str) {
        *self.done.entry(kind.to_owned()).or_default() += 1;
        let examples = self.examples.entry(kind.to_owned()).or_default();
        if examples.len() < EXAMPLES_MAX {
            examples.push(name.to_owned());
        }
    }

    /// Notes what was left alone.
    pub(crate) fn note_spared(&mut self, reason: &str) {
        *self.spared.entry(reason.to_owned()).or_default() += 1;
    }
}

/// Why a run ended early. What it had done is done; the next run goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The store failed, and went on failing.
    #[error("failed to run {job}")]
    Store {
        /// The job.
        job: &'static str,
        /// The last failure.
        source: StoreError,
    },
    /// It was told to stop.
    #[error("{job} was stopped")]
    Stopped {
        /// The job.
        job: &'static str,
    },
    /// How far it came cannot be noted.
    #[error("failed to note the position of {job}")]
    Checkpoint {
        /// The job.
        job: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

/// Something that goes over all rows of a kind.
#[async_trait]
pub trait Job: Send + Sync + Debug {
    /// Its name, also of its files and metrics.
    fn name(&self) -> &'static str;

    /// Goes over the context's share of the rows, from where the last run was ended.
    async fn run(&self, context: &Context) -> Result<Report, JobError>;
}

impl Context {
    /// A context for all rows, without limits, that notes nothing.
    pub fn new(live: Arc<dyn LiveMetrics>, clock: Arc<dyn Clock>) -> Self {
        let crate::Config { grace, settle, .. } = crate::Config::default();
        Self {
            live,
            clock,
            dry_run: false,
            share: Share::ALL,
            grace,
            settle,
            rows_per_second: 0,
            stop: CancellationToken::new(),
            checkpoints: Checkpoints::none(),
            progress: Progress::default(),
            registry: Registry::new(),
        }
    }

    /// Up to when something must have been written to be deleted, microseconds since the epoch.
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
