//! Copies metrics to other names, with all stages, values and counts, and moves them.
//!
//! `names` determines the metrics of an old name and their new names; `run` copies and moves them. The
//! reasons are in `docs/decisions/copy-and-move.md`.

mod names;
mod report;
mod run;

use std::collections::BTreeSet;
use std::time::Instant;

use plumbago_model::Retention;
use plumbago_store::MetricCopy;
use serde::{Deserialize, Serialize};

pub use self::report::CopiesReport;

use self::names::Mapping;
use self::run::Run;
use crate::done_list::DoneList;
use crate::import::name_hash;
use crate::select::Which;
use crate::verb::{FailureKind, VerbError, Work};

/// An entry of the list that records that the old name is a metric. It contains a space, so it cannot be a
/// name.
const IS_METRIC: &str = "is metric";

/// The metrics to copy, and the options of the copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopyPlan {
    /// A metric or a directory.
    pub from: String,
    /// The new name of the metric or directory.
    pub to: String,
    /// The retention of the copies; `None` for that of the originals, or that of existing metrics with the
    /// new names.
    pub retention: Option<String>,
    /// Whether copied slots replace existing slots of the new name.
    pub overwrite: bool,
    /// Largest number of metrics per second; 0 for no limit.
    pub rate: u32,
    /// Whether to only count the changes without making them.
    pub dry_run: bool,
}

/// What happens to the metrics that were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Old {
    /// The metrics stay.
    Stays,
    /// The metrics are deleted.
    Goes,
}

impl CopyPlan {
    /// Checks the names and the retention.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        Mapping::new(&self.from, &self.to)?;
        self.retention().map(drop)
    }

    fn retention(&self) -> Result<Option<Retention>, String> {
        let parsed = self.retention.as_deref().map(Retention::from_text).transpose();
        parsed.map_err(|error| format!("--retention: {error}"))
    }
}

/// Copies or moves.
///
/// # Errors
/// If there is no such metric, the store fails, or the run is cancelled.
pub(crate) async fn copy(plan: &CopyPlan, old: Old, work: &Work) -> Result<CopiesReport, VerbError> {
    let began = Instant::now();
    let mapping = Mapping::new(&plan.from, &plan.to).map_err(VerbError::Invalid)?;
    let retention = plan.retention().map_err(VerbError::Invalid)?;
    let mut report = CopiesReport { dry_run: plan.dry_run, ..CopiesReport::default() };
    work.progress.begin("finding metrics", None);
    let mut done = open_list(plan, old, work)?;
    let names = find(&mapping, &mut done, work, &mut report).await?;
    report.metrics = names.len() as u64;
    if names.is_empty() && !done.goes_on() {
        return Err(VerbError::NotFound);
    }
    let mut copies = Vec::with_capacity(names.len());
    for from in names {
        match mapping.apply(&from) {
            Ok(to) => copies.push(MetricCopy { from, to }),
            Err((reason, text)) => report.skips.note(reason, &from, &text),
        }
    }
    work.progress.begin(if old == Old::Goes { "moving" } else { "copying" }, Some(copies.len() as u64));
    let mut run = Run::new(plan, old, work, retention, done, report);
    let result = run.all(&copies).await;
    // Directories that became empty go even if the run was cancelled, because the names in them are gone.
    let cleaned = run.clean_directories().await;
    result.and(cleaned)?;
    let (mut report, done) = run.end();
    if !plan.dry_run {
        work.all_sent().await?;
    }
    done.remove()?;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// The list of the metrics that were copied, in the directory of the jobs.
fn open_list(plan: &CopyPlan, old: Old, work: &Work) -> Result<DoneList, VerbError> {
    let made_for = serde_json::json!({
        "from": plan.from, "to": plan.to, "retention": plan.retention, "overwrite": plan.overwrite,
    });
    let verb = if old == Old::Goes { "move" } else { "copy" };
    // Each pair of names has its own list, because several runs may be active.
    let hash = name_hash(&format!("{} {}", plan.from, plan.to));
    let path = work.dir.join(format!("{verb}-{}.list", &hash[..16]));
    DoneList::open((!plan.dry_run).then_some(path), &made_for, verb)
}

/// The metrics of the old name: the metric and the tagged series with this name or, if there are none, all
/// metrics below it. A run that continues interprets the name as the earlier run did, because the metric may
/// have been deleted since.
async fn find(
    mapping: &Mapping,
    done: &mut DoneList,
    work: &Work,
    report: &mut CopiesReport,
) -> Result<BTreeSet<String>, VerbError> {
    let mut names = BTreeSet::new();
    let tags = |expression: String| Which { tags: vec![expression], ..Which::default() };
    if let Some(metric) = mapping.metric() {
        let which = Which { names: Some(vec![metric]), ..Which::default() };
        add(&which, work, &mut names).await?;
        if mapping.is_series() {
            return Ok(names);
        }
        let is_metric = !names.is_empty();
        add_tagged(&tags(mapping.same_name()), work, &mut names, report).await?;
        if is_metric || done.has(IS_METRIC) {
            done.note(&[IS_METRIC])?;
            return Ok(names);
        }
    }
    add(&Which::glob(&mapping.below()), work, &mut names).await?;
    add_tagged(&tags(mapping.tagged_below()), work, &mut names, report).await?;
    Ok(names)
}

async fn add(which: &Which, work: &Work, names: &mut BTreeSet<String>) -> Result<(), VerbError> {
    let mut found = work.names.find(which);
    while let Some(batch) = found.recv().await {
        names.extend(batch?);
    }
    Ok(())
}

/// Adds tagged series. A process without tags in memory cannot find tagged series, so it adds none.
async fn add_tagged(
    which: &Which,
    work: &Work,
    names: &mut BTreeSet<String>,
    report: &mut CopiesReport,
) -> Result<(), VerbError> {
    match add(which, work, names).await {
        Err(error) if error.kind() == FailureKind::Invalid => {
            report.without_tags = true;
            Ok(())
        }
        result => result,
    }
}
