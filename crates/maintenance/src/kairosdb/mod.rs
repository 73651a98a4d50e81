//! Imports the history of a KairosDB or an OpenTSDB.
//!
//! First everything is read once and divided by series into files (`scratch`), because the points of one
//! series are far apart in the source and a window has to be folded from all of them. Then each file is
//! stored (`part`). After a kill, the next run continues where the killed one stopped. The reasons are in
//! `docs/decisions/kairosdb-import.md`.

mod files;
mod from_files;
mod from_keyspace;
mod part;
mod report;
mod scratch;
mod split;
mod suggest;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use plumbago_store::{History, HistoryOptions};
use serde::{Deserialize, Serialize};

pub use self::report::{ImportKairosdbReport, RuleCounts};

use self::files::Files;
use self::part::{Found, Limits};
use self::scratch::{PARTS, Scratch};
use self::split::Splitter;
use self::suggest::Suggestions;
use crate::batches::{batch_len, side_by_side};
use crate::counts::reason_of;
use crate::rate::Rate;
use crate::skipped::Skipped;
use crate::verb::{VerbError, Work};

/// The directory of a run's files, inside the directory of the jobs.
const SCRATCH: &str = "import-kairosdb";
/// About how many points are passed to the store in one call.
const GROUP_POINTS: u64 = 500_000;
/// Largest number of series that are passed to the store in one call.
const GROUP_SERIES: usize = 256;

/// Stores the history of a KairosDB or an OpenTSDB.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportKairosdb {
    /// Files of KairosDB's `export` or OpenTSDB's `scan --import`, as absolute paths.
    pub paths: Vec<PathBuf>,
    /// A keyspace of a KairosDB to read, instead of files.
    pub keyspace: Option<String>,
    /// The servers of the keyspace, as `host:port`; empty for those of the store's settings.
    pub contact_points: Vec<String>,
    /// Only these metrics; empty for all.
    pub metrics: Vec<String>,
    /// Points before this time are left out; seconds since the epoch.
    pub from: Option<i64>,
    /// Points at this time or later are left out; seconds since the epoch.
    pub until: Option<i64>,
    /// How many blocks are read and parts are stored at a time.
    pub workers: usize,
    /// Maximum number of points that are stored per second; 0 for no limit.
    pub rate: u32,
    /// Whether points of the history replace stored slots.
    pub overwrite: bool,
    /// Whether to find the coarsest storage rules that lose no more points than slots of one second would.
    pub suggest_rules: bool,
    /// Where to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to count what would be done, and change nothing.
    pub dry_run: bool,
}

/// Imports.
///
/// # Errors
///
/// If a file cannot be read, the store fails, or the run is cancelled.
pub(crate) async fn import(plan: &ImportKairosdb, work: &Work) -> Result<ImportKairosdbReport, VerbError> {
    let began = Instant::now();
    let files = Files::look(&plan.paths)?;
    let made_for = serde_json::json!({
        "files": files.stamps(), "keyspace": plan.keyspace, "from": plan.from, "until": plan.until, "metrics": plan.metrics,
        "dry_run": plan.dry_run, "overwrite": plan.overwrite, "suggest_rules": plan.suggest_rules,
    });
    let scratch = Scratch::open(&work.dir.join(SCRATCH), made_for, work.files.min_free_bytes())?;
    let scratch = if scratch.state().is_split { scratch } else { split(plan, files, scratch, work).await? };
    let (mut report, suggestions) = store(plan, scratch, work).await?;
    if plan.suggest_rules {
        report.suggested_rules = suggestions.text(work.context.clock.now());
    }
    if !plan.dry_run {
        work.all_sent().await?;
    }
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// Reads everything and divides it by series.
async fn split(
    plan: &ImportKairosdb,
    files: Files,
    scratch: Scratch,
    work: &Work,
) -> Result<Scratch, VerbError> {
    let mut splitter = Splitter::new(plan, scratch, work)?;
    if let Some(keyspace) = &plan.keyspace {
        let tables = work.kairosdbs.connect(keyspace, &plan.contact_points).await?;
        from_keyspace::take(&mut splitter, tables, plan).await?;
        return splitter.finish();
    }
    let workers = plan.workers;
    let splitting = move || {
        from_files::take(&mut splitter, &files, workers)?;
        splitter.finish()
    };
    tokio::task::spawn_blocking(splitting).await.map_err(|error| VerbError::Failed(error.to_string()))?
}

/// What the workers that store parts share.
struct Run<'a> {
    plan: &'a ImportKairosdb,
    work: &'a Work,
    scratch: Mutex<Scratch>,
    skipped: Mutex<Skipped>,
    rate: tokio::sync::Mutex<Rate>,
    limits: Arc<Limits>,
}

/// Stores all files of the scratch directory and removes it.
async fn store(
    plan: &ImportKairosdb,
    scratch: Scratch,
    work: &Work,
) -> Result<(ImportKairosdbReport, Suggestions), VerbError> {
    let due: Vec<usize> = (0..PARTS).filter(|part| !scratch.state().stored.contains(part)).collect();
    work.progress.begin("points", Some(due.iter().map(|part| scratch.points(*part)).sum()));
    let limits = Limits { now: work.context.clock.now(), suggests: plan.suggest_rules };
    let run = Run {
        plan,
        work,
        skipped: Mutex::new(Skipped::open(plan.skipped.as_deref(), true)?),
        scratch: Mutex::new(scratch),
        rate: tokio::sync::Mutex::new(Rate::new(plan.rate)),
        limits: Arc::new(limits),
    };
    let result = side_by_side(&due, plan.workers, |part| run.part(*part)).await;
    run.skipped.into_inner().unwrap_or_else(PoisonError::into_inner).flush()?;
    result?;
    run.scratch.into_inner().unwrap_or_else(PoisonError::into_inner).remove()
}

impl Run<'_> {
    /// Stores one file of the scratch directory, and notes this.
    async fn part(&self, part: usize) -> Result<(), VerbError> {
        self.work.go_on()?;
        let path = self.lock().path(part);
        let (histories, limits) = (Arc::clone(&self.work.histories), Arc::clone(&self.limits));
        let reading = move || part::read(&path, &limits, &*histories);
        let read = tokio::task::spawn_blocking(reading).await;
        let Found { mut series, mut report, suggestions } =
            read.map_err(|error| VerbError::Failed(error.to_string()))??;
        let points: u64 = series.iter().map(History::points).sum();
        while !self.plan.dry_run && !series.is_empty() {
            self.group(&mut series, &mut report).await?;
        }
        self.work.progress.add(points + report.same_slot + report.too_old + report.future);
        self.lock().note_stored(part, &report, suggestions)
    }

    /// Stores some of these series and removes them.
    async fn group(
        &self,
        series: &mut Vec<History>,
        report: &mut ImportKairosdbReport,
    ) -> Result<(), VerbError> {
        self.work.go_on()?;
        let len = batch_len(series.iter().rev(), GROUP_SERIES, GROUP_POINTS, History::points);
        let group = series.split_off(series.len() - len);
        let points: u64 = group.iter().map(History::points).sum();
        self.rate.lock().await.take(points as usize).await;
        let names: Vec<String> = group.iter().map(|history| history.name.clone()).collect();
        let options = HistoryOptions { overwrites: self.plan.overwrite, dry_run: false };
        let stored = self.work.histories.take(group, options).await.map_err(VerbError::Interrupted)?;
        for (name, stored) in names.iter().zip(stored) {
            report.add_stored(&stored);
            if !stored.refused.is_empty() {
                let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
                skipped.note(&mut report.skips, reason_of(&stored.refused), name, &stored.refused)?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
