//! Imports the metrics of another store of this program: names, settings, and all stages with values and
//! counts.
//!
//! `source` is the other store, `run` reads and stores. The reasons are in `docs/decisions/copy-and-move.md`.

mod report;
mod run;
mod source;

use std::time::Instant;

pub use self::report::ImportStoreReport;
pub use self::source::{SourceStore, StoreConnector};

use self::run::{Run, batches};
use crate::batches::side_by_side;
use crate::done_list::DoneList;
use crate::skipped::Skipped;
use crate::verb::{Verb as _, VerbError, Work};
use crate::verbs::other_store::ImportStore;

/// The list of the metrics that were stored, in the directory of the jobs.
const DONE_LIST: &str = "import-store.list";

/// Imports another store.
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
