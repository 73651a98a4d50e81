//! Stores whisper files as the history of metrics.
//!
//! `walk` finds the files and their names, `read` reads one metric, and `stored_files` remembers which files
//! were stored, so that a second run imports only changed files. The reasons are in
//! `docs/decisions/whisper-import.md`.

mod names;
mod read;
mod report;
mod stored_files;
mod walk;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use plumbago_store::{History, HistoryOptions, HistoryReport};
use serde::{Deserialize, Serialize};

pub use self::names::TaggedNames;
pub(crate) use self::names::hash as name_hash;
pub use self::report::ImportReport;

use self::read::{Reading, Trouble, read_metric};
use self::stored_files::StoredFiles;
use self::walk::{Found, Metric};
use crate::batches::{batches, side_by_side};
use crate::counts::reason_of;
pub use crate::histories::Histories;
use crate::histories::Refusals;
use crate::rate::Rate;
use crate::skipped::Skipped;
use crate::verb::{VerbError, Work};

/// The list of files that were stored, in the directory of the jobs.
const STORED_FILES: &str = "import-whisper.list";

/// About how many bytes of files are passed to the sink in one call. A point has 12 bytes.
const GROUP_BYTES: u64 = 6 << 20;
/// Largest number of metrics that are passed to the sink in one call.
const GROUP_METRICS: usize = 256;

/// Stores whisper files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportWhisper {
    /// Files and trees, as absolute paths.
    pub paths: Vec<PathBuf>,
    /// Put in front of all names, followed by a dot; empty for none.
    pub prefix: String,
    /// Points before this time are left out; seconds since the epoch.
    pub since: Option<i64>,
    /// How many groups of files are read and stored at a time.
    pub workers: usize,
    /// Maximum number of metrics to store per second; 0 for no limit.
    pub rate: u32,
    /// Whether new metrics get the settings of the storage rules instead of those of their files.
    pub rules: bool,
    /// Whether points of the files replace stored slots.
    pub overwrite: bool,
    /// Whether files that were stored before and have not changed are stored again.
    pub again: bool,
    /// A file with the names of tagged series, one per line.
    pub tagged_names: Option<PathBuf>,
    /// Where to list the files that were skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to count what would be done, and change nothing.
    pub dry_run: bool,
}

impl ImportWhisper {
    /// How imported points are merged with stored ones.
    pub(crate) fn options(&self) -> HistoryOptions {
        HistoryOptions { overwrites: self.overwrite, dry_run: self.dry_run }
    }
}

/// What a run shares between its workers.
struct Run<'a> {
    plan: &'a ImportWhisper,
    work: &'a Work,
    state: Mutex<State>,
    refusals: tokio::sync::Mutex<Refusals>,
    rate: tokio::sync::Mutex<Rate>,
}

struct State {
    report: ImportReport,
    skipped: Skipped,
    done: StoredFiles,
}

/// Imports whisper files.
///
/// # Errors
///
/// If the store fails or the run is cancelled.
pub(crate) async fn import_whisper(
    plan: &ImportWhisper,
    tagged: TaggedNames,
    work: &Work,
) -> Result<ImportReport, VerbError> {
    let began = Instant::now();
    let mut skipped = Skipped::open(plan.skipped.as_deref(), false)?;
    let mut report = ImportReport { dry_run: plan.dry_run, ..ImportReport::default() };
    let done = StoredFiles::open((!plan.dry_run).then(|| work.dir.join(STORED_FILES)), plan)?;
    work.progress.begin("looking for files", None);
    let (paths, prefix) = (plan.paths.clone(), plan.prefix.clone());
    let found = tokio::task::spawn_blocking(move || Found::look(&paths, &prefix, &tagged)).await;
    let found = found.map_err(|error| VerbError::Failed(error.to_string()))?;
    for (path, problem) in &found.problems {
        report.skip(&mut skipped, path, problem.0, &problem.1)?;
    }
    report.files = found.files;
    report.bytes = found.metrics.iter().map(Metric::bytes).sum();
    let (due, unchanged): (Vec<Metric>, Vec<Metric>) =
        found.metrics.into_iter().partition(|metric| plan.again || !done.has(metric));
    report.unchanged = unchanged.len() as u64;
    report.metrics = due.len() as u64;
    let slots: u64 = due.iter().map(Metric::bytes).sum::<u64>() / plumbago_whisper::POINT_BYTES as u64;
    work.progress.begin("slots", Some(slots));
    let state = Mutex::new(State { report, skipped, done });
    let rate = Rate::new(plan.rate);
    let most = rate.step(GROUP_METRICS);
    let run = Run { plan, work, state, refusals: Default::default(), rate: rate.into() };
    let groups = batches(&due, most, GROUP_BYTES, Metric::bytes);
    let result = side_by_side(&groups, plan.workers, |group| run.group(group)).await;
    let State { mut report, mut skipped, .. } =
        run.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = began.elapsed().as_secs_f64();
    skipped.flush()?;
    result?;
    work.all_sent().await?;
    Ok(report)
}

impl Run<'_> {
    async fn group(&self, group: &[Metric]) -> Result<(), VerbError> {
        self.rate.lock().await.take(group.len()).await;
        self.work.go_on()?;
        let (owned, since, now) = (group.to_vec(), self.plan.since, self.work.context.clock.now());
        let reading = tokio::task::spawn_blocking(move || {
            owned.iter().map(|metric| read_metric(metric, since, now)).collect::<Vec<Reading>>()
        });
        let mut readings = reading.await.map_err(|error| VerbError::Failed(error.to_string()))?;
        let mut histories: Vec<History> = Vec::new();
        let mut places = Vec::new();
        for (place, reading) in readings.iter_mut().enumerate() {
            if let Some(mut history) = reading.history.take() {
                if self.plan.rules {
                    history.config = self.work.histories.config_for(&history.name);
                }
                if let Some(why) =
                    self.refusals.lock().await.of(&*self.work.histories, &history.config).await?
                {
                    let path = group[place].files[0].path.clone();
                    reading.problems.push((path, Trouble { reason: "tables", text: why }));
                    continue;
                }
                histories.push(history);
                places.push(place);
            }
        }
        let taken = self.work.histories.take(histories, self.plan.options()).await;
        let reports = taken.map_err(VerbError::Interrupted)?;
        let mut by_place: Vec<Option<HistoryReport>> = vec![None; group.len()];
        places.into_iter().zip(reports).for_each(|(place, report)| by_place[place] = Some(report));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { report, skipped, done } = &mut *state;
        for ((metric, reading), stored) in group.iter().zip(readings).zip(by_place) {
            for (path, problem) in &reading.problems {
                report.skip(skipped, path, problem.reason, &problem.text)?;
            }
            self.work.progress.add(metric.bytes() / plumbago_whisper::POINT_BYTES as u64);
            report.read_again += reading.read_again;
            report.unknown_values += reading.unknown_values;
            let Some(stored) = stored else { continue };
            report.add(&stored);
            if !stored.refused.is_empty() {
                let path = &metric.files[0].path;
                let text = format!("{}: {}", metric.name, stored.refused);
                report.skip(skipped, path, reason_of(&stored.refused), &text)?;
            } else if reading.problems.is_empty() {
                done.note(&reading.stamps)?;
            }
        }
        done.flush()?;
        Ok(())
    }
}
