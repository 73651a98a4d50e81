//! The verbs `import-graphite` and `import-events`.

use std::path::PathBuf;

use async_trait::async_trait;
use plumbago_model::Retention;
use serde::{Deserialize, Serialize};

use crate::events::{self, EventsReport};
use crate::graphite::{ImportGraphiteReport, SourceServer, import};
use crate::verb::{Verb, VerbError, Work};

/// The most requests that are under way at a time.
const WORKERS_MAX: usize = 64;

/// Stores the history of the metrics of another Graphite server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportGraphite {
    /// The server.
    pub server: SourceServer,
    /// Only metrics that match one of these globs; empty for all, unless tags are named.
    pub globs: Vec<String>,
    /// Tagged series that match all of these tag expressions.
    pub tags: Vec<String>,
    /// Earlier points are left out; seconds since the epoch.
    pub from: Option<i64>,
    /// Points from then on are left out; seconds since the epoch.
    pub until: Option<i64>,
    /// The retention of the metrics on the server; `None` if it is as here.
    pub retentions: Option<String>,
    /// How many requests are under way at a time.
    pub workers: usize,
    /// Most requests in a second; 0 for no limit.
    pub rate: u32,
    /// The points of the server win a slot that is stored already.
    pub overwrite: bool,
    /// Where to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Count what would be done and change nothing.
    pub dry_run: bool,
}

impl ImportGraphite {
    /// The retention of the metrics on the server, if it was named.
    ///
    /// # Errors
    /// If it is no retention.
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
            return Err(format!("--workers must be a number from 1 to {WORKERS_MAX}"));
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
    /// Earlier events are left out; seconds since the epoch.
    pub from: Option<i64>,
    /// Later events are left out; seconds since the epoch.
    pub until: Option<i64>,
    /// Count what would be done and change nothing.
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
        (Some(from), Some(until)) if from >= until => Err("--from must be before --until".to_owned()),
        _ => Ok(()),
    }
}
