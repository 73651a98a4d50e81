//! Imports the metrics of another store of this program: names, settings, and all stages with values and
//! counts.
//!
//! `source_store` is the other store, `run` reads and stores. The reasons are in `docs/decisions/copy-and-move.md`.

mod report;
mod run;

use std::path::PathBuf;
use std::time::Instant;

use plumbago_model::Pattern;
use serde::{Deserialize, Serialize};

pub use self::report::ImportStoreReport;
pub use crate::source_store::{SourceStore, StoreConnector};

use self::run::{Run, batches};
use crate::batches::side_by_side;
use crate::done_list::DoneList;
use crate::skipped::Skipped;
use crate::verb::{Verb as _, VerbError, Work};

/// The list of the metrics that were stored, in the directory of the jobs.
const DONE_LIST: &str = "import-store.list";

/// Stores what another store has.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportStore {
    /// The configuration of the other store, as an absolute path.
    pub file: PathBuf,
    /// The directory that a relative `data_dir` in this configuration starts from, as an absolute path.
    pub directory: PathBuf,
    /// Only metrics that match one of these globs; empty for all.
    pub globs: Vec<String>,
    /// Whether new metrics get the settings of the storage rules instead of those that they have in the other
    /// store.
    pub rules: bool,
    /// Whether slots of the other store replace stored slots.
    pub overwrite: bool,
    /// How many batches are read and stored at a time.
    pub workers: usize,
    /// Metrics per second, at most; 0 for no limit.
    pub rate: u32,
    /// Where to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to count what would be done, and change nothing.
    pub dry_run: bool,
}

impl ImportStore {
    /// The globs.
    ///
    /// # Errors
    /// Which one cannot be used, and why.
    pub(crate) fn patterns(&self) -> Result<Vec<Pattern>, String> {
        let parse = |glob: &String| match glob.as_str() {
            "" => Err("the glob is empty".to_owned()),
            glob => Pattern::parse(glob).map_err(|error| format!("{glob}: {error}")),
        };
        self.globs.iter().map(parse).collect()
    }
}

/// Imports.
///
/// # Errors
///
/// If the other store cannot be opened or read, this store fails, or the run is cancelled.
pub(crate) async fn import(plan: &ImportStore, work: &Work) -> Result<ImportStoreReport, VerbError> {
    let began = Instant::now();
    let list = (!plan.dry_run).then(|| work.dir.join(DONE_LIST));
    // This check comes before the other store is opened, because an earlier run has locked that store.
    let done = DoneList::lock(list, ImportStore::NAME)?;
    work.progress.begin("opening the other store", None);
    let source = work.other_stores.open(&plan.file, &plan.directory).await?;
    let result = import_from(&*source, plan, work, done).await;
    // Closed after an error too, because the data directory must not stay locked.
    let closed = source.close().await;
    let (report, done) = result?;
    let damage = closed?;
    done.remove()?;
    Ok(ImportStoreReport { damage, seconds: began.elapsed().as_secs_f64(), ..report })
}

async fn import_from(
    source: &dyn SourceStore,
    plan: &ImportStore,
    work: &Work,
    done: DoneList,
) -> Result<(ImportStoreReport, DoneList), VerbError> {
    let made_for = serde_json::json!({
        "source": source.identity(), "globs": plan.globs, "rules": plan.rules, "overwrite": plan.overwrite,
    });
    let done = done.begin(&made_for)?;
    let skipped = Skipped::open(plan.skipped.as_deref(), done.goes_on())?;
    let mut run = Run::new(source, plan, work, done, skipped);
    work.progress.begin("looking for metrics", None);
    let due = run.due().await?;
    work.progress.begin("metrics", Some(due.len() as u64));
    let result = side_by_side(&batches(&due), plan.workers, |batch| run.batch(batch)).await;
    let (report, mut skipped, done) = run.end();
    skipped.flush()?;
    result?;
    if !plan.dry_run {
        work.all_sent().await?;
    }
    Ok((report, done))
}
