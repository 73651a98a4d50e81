//! Imports the history of the metrics of another Graphite server, which is requested by `/render`.
//!
//! `graphite_source` is the server, `plan` says what it is asked for and where the answers go, `run` does it. The
//! reasons are in `docs/decisions/import-from-graphite.md`.

mod plan;
mod report;
mod run;

use std::path::PathBuf;
use std::time::Instant;

use plumbago_model::Retention;
use serde::{Deserialize, Serialize};

pub use self::report::ImportGraphiteReport;
pub(crate) use self::run::heard;
pub use crate::graphite_source::{
    GraphiteConnector, GraphiteSource, SourceError, SourceEvent, SourceRange, SourceSeries, SourceServer,
};

use self::run::Run;
use crate::batches::side_by_side;
use crate::done_list::DoneList;
use crate::skipped::Skipped;
use crate::verb::{Verb as _, VerbError, Work};

/// The list of the metrics that were stored, in the directory of the jobs.
const DONE_LIST: &str = "import-graphite.list";
/// Number of metrics that a worker takes at a time.
const CHUNK: usize = 100;
/// Times in the options of two runs are compared by the day, because a period like `30d` means a later time
/// in the run that continues.
const DAY: i64 = 86_400;

/// Stores the history of the metrics of another Graphite server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportGraphite {
    /// The server to read, and how it is reached.
    pub server: SourceServer,
    /// Only metrics that match one of these globs; empty for all, unless tags are named.
    pub globs: Vec<String>,
    /// Tagged series that match all of these tag expressions.
    pub tags: Vec<String>,
    /// Points before this time are left out; seconds since the epoch.
    pub from: Option<i64>,
    /// Points at this time or later are left out; seconds since the epoch.
    pub until: Option<i64>,
    /// The retention of the metrics on the server; `None` if the metrics have the same one here.
    pub retentions: Option<String>,
    /// How many requests are under way at a time.
    pub workers: usize,
    /// Maximum number of requests per second; 0 for no limit.
    pub rate: u32,
    /// Whether points of the server replace stored slots.
    pub overwrite: bool,
    /// Where to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to count what would be done, and change nothing.
    pub dry_run: bool,
}

impl ImportGraphite {
    /// The retention of the metrics on the server, if it was named.
    ///
    /// # Errors
    /// If the text is not a retention.
    pub(crate) fn retention(&self) -> Result<Option<Retention>, String> {
        let parsed = self.retentions.as_deref().map(Retention::from_text).transpose();
        parsed.map_err(|error| format!("--retentions: {error}"))
    }
}

/// Imports.
///
/// # Errors
/// If the server no longer answers, the store fails, or the run is cancelled.
pub(crate) async fn import(plan: &ImportGraphite, work: &Work) -> Result<ImportGraphiteReport, VerbError> {
    let began = Instant::now();
    let source = work.graphites.connect(&plan.server).map_err(VerbError::Invalid)?;
    let made_for = serde_json::json!({
        "url": plan.server.url, "from": plan.from.map(|from| from / DAY), "until": plan.until.map(|until| until / DAY),
        "overwrite": plan.overwrite, "retentions": plan.retentions,
    });
    let list = (!plan.dry_run).then(|| work.dir.join(DONE_LIST));
    let done = DoneList::open(list, &made_for, ImportGraphite::NAME)?;
    let skipped = Skipped::open(plan.skipped.as_deref(), done.goes_on())?;
    let mut run = Run::new(plan, work, source, done, skipped)?;
    work.progress.begin("looking for metrics", None);
    let due = run.due().await?;
    work.progress.begin("metrics", Some(due.len() as u64));
    let chunks: Vec<&[String]> = due.chunks(CHUNK).collect();
    let result = side_by_side(&chunks, plan.workers, |chunk| run.chunk(chunk)).await;
    let (mut report, mut skipped, done) = run.end();
    skipped.flush()?;
    result?;
    if !plan.dry_run {
        work.all_sent().await?;
    }
    done.remove()?;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}
