//! The verbs `import-graphite` and `import-events`.

use std::path::PathBuf;

use async_trait::async_trait;
use plumbago_model::Retention;
use serde::{Deserialize, Serialize};

use crate::events::{self, EventsReport};
use crate::graphite::{ImportGraphiteReport, SourceServer, import};
use crate::verb::{Verb, VerbError, Work};

/// Largest number of requests at the same time.
const WORKERS_MAX: usize = 64;

/// Imports the history of the metrics of another Graphite server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportGraphite {
    /// The server.
    pub server: SourceServer,
    /// Globs of the metrics to import; empty for all, unless tags are given.
    pub globs: Vec<String>,
    /// Tagged series that match all of these tag expressions.
    pub tags: Vec<String>,
    /// The start of the import in seconds since the epoch; earlier points are left out.
    pub from: Option<i64>,
    /// The end of the import in seconds since the epoch; points at or after it are left out.
    pub until: Option<i64>,
    /// The retention of the metrics on the server; `None` if it is the same as in this store.
    pub retentions: Option<String>,
    /// The number of requests at the same time.
    pub workers: usize,
    /// Largest number of requests per second; 0 for no limit.
    pub rate: u32,
    /// Whether points of the server replace stored ones.
    pub overwrite: bool,
    /// The file in which to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to only count the changes without making them.
    pub dry_run: bool,
}

impl ImportGraphite {
    /// The retention of the metrics on the server, if it was given.
    ///
    /// # Errors
    /// If it is not a valid retention.
    pub(crate) fn retention(&self) -> Result<Option<Retention>, String> {
        let parsed = self.retentions.as_deref().map(Retention::from_text).transpose();
        parsed.map_err(|error| format!("--retentions: {error}"))
    }
}

#[async_trait]
impl Verb for ImportGraphite {
    const NAME: &'static str = "import-graphite";
    const NEEDS_DATA: bool = false;
    type Answer = ImportGraphiteReport;

    fn check(&self) -> Result<(), String> {
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(format!("--workers is a number from 1 to {WORKERS_MAX}"));
        }
        self.retention()?;
        check_range(self.from, self.until)
    }

    async fn run(&self, work: &Work) -> Result<ImportGraphiteReport, VerbError> {
        import(self, work).await
    }
}

/// Adds the events of another Graphite server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportEvents {
    /// The server.
    pub server: SourceServer,
    /// The start in seconds since the epoch; earlier events are left out.
    pub from: Option<i64>,
    /// The end in seconds since the epoch; later events are left out.
    pub until: Option<i64>,
    /// Whether to only count the changes without making them.
    pub dry_run: bool,
}

#[async_trait]
impl Verb for ImportEvents {
    const NAME: &'static str = "import-events";
    const NEEDS_DATA: bool = false;
    type Answer = EventsReport;

    fn check(&self) -> Result<(), String> {
        check_range(self.from, self.until)
    }

    async fn run(&self, work: &Work) -> Result<EventsReport, VerbError> {
        events::import(self, work).await
    }
}

fn check_range(from: Option<i64>, until: Option<i64>) -> Result<(), String> {
    match (from, until) {
        (Some(from), Some(until)) if from >= until => Err("--from is not before --until".to_owned()),
        _ => Ok(()),
    }
}
