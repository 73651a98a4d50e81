//! The verb `delete`: removes whole metrics from memory, journal, spool, rows, names and directories, or
//! removes a time range of metrics (`docs/decisions/delete.md`).

mod range;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plumbago_model::{MetricId, Stage, has_glob};
use plumbago_store::{
    DirectoryStore, ErrorKind, FlushBatch, FlushStore, MetricMeta, StateRow, StoreError, TimeRange,
    directories_above,
};
use serde::{Deserialize, Serialize};

use crate::rate::Rate;
use crate::select::{self, Which};
use crate::verb::{Verb, VerbError, Work};

/// A selection that matches more metrics than this is deleted only after a confirmation.
const UNCONFIRMED_MAX: u64 = 1000;
/// Number of metrics that are deleted together.
const BATCH: usize = 500;
/// Pause before another try to delete metrics that had points on their way to the store.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// How often a failing call is repeated before the run fails.
const TRIES: u32 = 6;
/// Largest number of names in the answer.
const EXAMPLES_MAX: usize = 5;
/// Largest number of directories that wait for a second check at the end. Further ones are left to the
/// clean-up.
const DIRECTORIES_MAX: usize = 100_000;

/// Deletes whole metrics, or a time range of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delete {
    /// The metrics.
    pub which: Which,
    /// Whether to only count the metrics and change nothing.
    pub dry_run: bool,
    /// Whether to delete the metrics whatever their number.
    pub confirmed: bool,
    /// The most metrics to delete in a second; 0 for no limit.
    pub rate: u32,
    /// The start of the range in seconds since the epoch, inclusive. Without start and end, whole metrics are
    /// deleted. With only an end, the range has no start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<i64>,
    /// The end of the range in seconds since the epoch, exclusive; `None` for no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
}

/// The results of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deleted {
    /// Number of metrics that were deleted; in a dry run and without confirmation, those that match.
    pub metrics: u64,
    /// Number of directories that became empty and were deleted, in stores that keep directories.
    pub directories: u64,
    /// A few of the names.
    pub examples: Vec<String>,
    /// Whether nothing was deleted because the number of metrics needs a confirmation.
    pub wants_confirmation: bool,
    /// For a range: the number of points in it. Only a dry run counts those in the store.
    pub points: u64,
    /// For a range: windows of coarser stages within it, as a dry run counts them.
    pub windows: u64,
    /// For a range: windows at its borders that were folded again from the remaining slots.
    pub folded: u64,
    /// For a range: windows at its borders that stay as they are, because the points they were folded from
    /// have expired.
    pub kept: u64,
}

#[async_trait]
impl Verb for Delete {
    const NAME: &'static str = "delete";
    type Answer = Deleted;

    fn check(&self) -> Result<(), String> {
        self.which.check()?;
        match (self.from.unwrap_or(0), self.until) {
            (from, Some(until)) if from >= until => Err("the range ends before it begins".to_owned()),
            _ => Ok(()),
        }
    }

    async fn run(&self, work: &Work) -> Result<Deleted, VerbError> {
        work.progress.begin("finding metrics", None);
        let mut answer =
            Deleted { metrics: select::count(&*work.names, &self.which).await?, ..Deleted::default() };
        answer.wants_confirmation = !self.dry_run && !self.confirmed && self.is_large(answer.metrics);
        if let Some(range) = self.range()
            && !answer.wants_confirmation
        {
            return range::delete(work, self, range, answer).await;
        }
        if self.dry_run || answer.wants_confirmation {
            let mut first = work.names.find(&self.which);
            if let Some(names) = first.recv().await {
                answer.examples = names?.into_iter().take(EXAMPLES_MAX).collect();
            }
            return Ok(answer);
        }
        work.progress.begin("deleting", Some(answer.metrics));
        answer.metrics = 0;
        let mut rate = Rate::new(self.rate);
        let mut directories = BTreeSet::new();
        let mut found = work.names.find(&self.which);
        let result = loop {
            let Some(names) = found.recv().await else { break Ok(()) };
            if let Err(error) = delete_each(work, &names?, &mut rate, &mut answer, &mut directories).await {
                break Err(error);
            }
        };
        // Directories that became empty go even if the run was cancelled, because the names in them are gone.
        let cleaned = clean_directories(work, directories, &mut answer).await;
        make_durable(work).await?;
        result.and(cleaned).map(|()| answer)
    }
}

impl Delete {
    /// The time range; `None` if whole metrics are deleted.
    fn range(&self) -> Option<TimeRange> {
        let seconds = |time: i64| u32::try_from(time.max(0)).unwrap_or(u32::MAX);
        (self.from.is_some() || self.until.is_some()).then(|| TimeRange {
            from: self.from.map_or(0, seconds),
            until: self.until.map_or(u32::MAX, seconds),
        })
    }

    /// Whether the selection is so large that the command needs a confirmation.
    fn is_large(&self, metrics: u64) -> bool {
        let first = self.which.glob.as_deref().map(|glob| glob.split('.').next().unwrap_or(glob));
        let is_everything =
            first.is_some_and(|first| has_glob(first) && !first.contains(|c: char| c.is_alphanumeric()));
        let is_chosen_one_by_one = self.which.names.is_some();
        metrics > 0 && (is_everything || metrics > UNCONFIRMED_MAX && !is_chosen_one_by_one)
    }
}

/// Deletes metrics whose deletion has begun, ends it, and counts them.
///
/// # Errors
/// If the store fails. In that case the metrics are loaded again.
pub(crate) async fn finish(
    work: &Work,
    metrics: Vec<(&str, Option<MetricMeta>)>,
    answer: &mut Deleted,
    directories: &mut BTreeSet<String>,
) -> Result<(), VerbError> {
    if metrics.is_empty() {
        return Ok(());
    }
    let (names, known): (Vec<&str>, Vec<Option<MetricMeta>>) = metrics.into_iter().unzip();
    delete_begun(work, &names, known).await?;
    count(work, &names, answer, directories);
    Ok(())
}

/// Waits until a power cut cannot bring back deleted data.
///
/// # Errors
///
/// If the store cannot be synced.
pub(crate) async fn make_durable(work: &Work) -> Result<(), VerbError> {
    if let Some(flush) = work.stores.states.clone() {
        blocking("make the deletion durable", move || flush.sync()).await?;
    }
    Ok(())
}

async fn delete_each(
    work: &Work,
    names: &[String],
    rate: &mut Rate,
    answer: &mut Deleted,
    directories: &mut BTreeSet<String>,
) -> Result<(), VerbError> {
    for names in names.chunks(rate.step(BATCH)) {
        rate.take(names.len()).await;
        work.go_on()?;
        let mut left: Vec<&str> = names.iter().map(String::as_str).collect();
        while !left.is_empty() {
            work.go_on()?;
            // Read before it begins, so that the metrics can be loaded again if the store fails.
            let known = retry(|| work.stores.metadata.get(&left)).await?;
            let begun = work.context.live.begin_deletions(&left).await?;
            let (mut now, mut metrics, mut later) = (Vec::new(), Vec::new(), Vec::new());
            for ((name, known), begun) in left.into_iter().zip(known).zip(begun) {
                if begun {
                    now.push(name);
                    metrics.push(known);
                } else {
                    later.push(name);
                }
            }
            left = later;
            if now.is_empty() {
                tokio::time::sleep(BUSY_PAUSE).await;
                continue;
            }
            delete_begun(work, &now, metrics).await?;
            note(work, &now, answer, directories);
        }
    }
    Ok(())
}

fn note(work: &Work, names: &[&str], answer: &mut Deleted, directories: &mut BTreeSet<String>) {
    work.progress.add(names.len() as u64);
    count(work, names, answer, directories);
}

fn count(work: &Work, names: &[&str], answer: &mut Deleted, directories: &mut BTreeSet<String>) {
    answer.metrics += names.len() as u64;
    let room = EXAMPLES_MAX.saturating_sub(answer.examples.len());
    answer.examples.extend(names.iter().take(room).map(|name| (*name).to_owned()));
    if work.stores.directories.is_some() {
        for directory in names.iter().flat_map(|name| directories_above(name)) {
            if directories.len() < DIRECTORIES_MAX && !directories.contains(directory) {
                directories.insert(directory.to_owned());
            }
        }
    }
}

/// Deletes from the stores the metrics whose deletion has begun, and ends the deletion.
async fn delete_begun(
    work: &Work,
    names: &[&str],
    mut known: Vec<Option<MetricMeta>>,
) -> Result<(), VerbError> {
    let mut result = Ok(());
    if known.iter().any(Option::is_none) {
        // Some metrics were created again meanwhile.
        match retry(|| work.stores.metadata.get(names)).await {
            Ok(found) => known = found,
            Err(error) => result = Err(error),
        }
    }
    if result.is_ok() {
        result = delete_stored(work, names, &known).await;
    }
    work.context.live.end_deletions(names).await?;
    if result.is_err() {
        // The stores still have a part of these metrics, so the metrics can be found and deleted again.
        let metrics: Vec<MetricMeta> = known.into_iter().flatten().collect();
        work.context.live.put_back(&metrics).await?;
    }
    Ok(result?)
}

/// Deletes metrics from the stores. The order matters if the process is killed in between: points and state
/// rows are deleted first. While the metric is listed, it can be found and deleted again.
async fn delete_stored(work: &Work, names: &[&str], known: &[Option<MetricMeta>]) -> Result<(), StoreError> {
    let stores = &work.stores;
    let points: Vec<(MetricId, Vec<Stage>)> =
        known.iter().flatten().map(|meta| (meta.id(), meta.config.retention.stages().to_vec())).collect();
    retry(|| stores.points.delete(&points)).await?;
    if let Some(states) = stores.states.clone() {
        let gone = names.iter().map(|name| StateRow { id: MetricId::of(name), bytes: Vec::new() }).collect();
        commit(states, FlushBatch { states: gone, ..FlushBatch::default() }).await?;
    }
    retry(|| stores.metadata.delete(names)).await
}

async fn commit(states: Arc<dyn FlushStore>, batch: FlushBatch) -> Result<(), StoreError> {
    let batch = Arc::new(batch);
    retry(|| {
        let (states, batch) = (Arc::clone(&states), Arc::clone(&batch));
        blocking("delete state rows", move || states.commit(&batch))
    })
    .await
}

async fn blocking(
    what: &'static str,
    work: impl FnOnce() -> Result<(), StoreError> + Send + 'static,
) -> Result<(), StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::with(ErrorKind::Internal, what, error)))
}

/// Repeats a call a few times if it fails with a transient error.
async fn retry<T, F: Future<Output = Result<T, StoreError>>>(
    mut call: impl FnMut() -> F,
) -> Result<T, StoreError> {
    let mut pause = Duration::from_millis(100);
    for _ in 1..TRIES {
        match call().await {
            Err(error) if error.is_transient() => tokio::time::sleep(pause).await,
            result => return result,
        }
        pause *= 2;
    }
    call().await
}

/// Deletes the rows of directories without metrics, the deepest first. A writer may have found such a
/// directory just before its deletion, and created a metric in it just after. So the directories are checked
/// again after `settle`, and created again if needed.
pub(crate) async fn clean_directories(
    work: &Work,
    directories: BTreeSet<String>,
    answer: &mut Deleted,
) -> Result<(), VerbError> {
    let Some(store) = work.stores.directories.clone().filter(|_| !directories.is_empty()) else {
        return Ok(());
    };
    work.progress.begin("removing empty directories", Some(directories.len() as u64));
    let as_of_us = work.context.clock.now_ms().saturating_mul(1000);
    let mut gone = Vec::new();
    let directories: Vec<&str> = directories.iter().map(String::as_str).collect();
    for names in directories.chunks(BATCH) {
        let suspects: Vec<&str> =
            names.iter().copied().filter(|name| !work.context.live.is_known_above(name)).collect();
        let occupied = retry(|| store.have_metrics_below(&suspects)).await?;
        let empty: Vec<&str> = suspects
            .into_iter()
            .zip(occupied)
            .filter(|(_, occupied)| !occupied)
            .map(|(name, _)| name)
            .collect();
        retry(|| store.delete_directories(&empty, as_of_us)).await?;
        gone.extend(empty);
        work.progress.add(names.len() as u64);
    }
    answer.directories = gone.len() as u64;
    if gone.is_empty() {
        return Ok(());
    }
    tokio::time::sleep(work.context.settle).await;
    restore_occupied(&*store, &gone).await
}

async fn restore_occupied(store: &dyn DirectoryStore, gone: &[&str]) -> Result<(), VerbError> {
    for names in gone.chunks(BATCH) {
        let occupied = retry(|| store.have_metrics_below(names)).await?;
        let again: Vec<&str> =
            names.iter().zip(occupied).filter(|(_, occupied)| *occupied).map(|(name, _)| *name).collect();
        if !again.is_empty() {
            retry(|| store.create_directories(&again)).await?;
        }
    }
    Ok(())
}
