//! Deletes whole metrics: from memory, journal and spool, and their rows, names and directories.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plumbago_model::{MetricId, Stage};
use plumbago_store::{
    DirectoryStore, ErrorKind, FlushBatch, FlushStore, MetricMeta, StateRow, StoreError, directories_above,
};
use serde::{Deserialize, Serialize};

use crate::rate::Rate;
use crate::verb::{VerbError, Work};

/// Number of metrics that are deleted together.
const BATCH: usize = 500;
/// Pause before the next attempt to delete metrics whose points were on their way to the store.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Number of times that a failing call is repeated before the run fails.
const TRIES: u32 = 6;
/// Largest number of names in the answer.
pub(crate) const EXAMPLES_MAX: usize = 5;
/// Largest number of directories that are deleted at the end. The clean-up deletes the others.
const DIRECTORIES_MAX: usize = 100_000;

/// What a deletion did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deleted {
    /// Metrics that were deleted; in a dry run and without confirmation, those that match.
    pub metrics: u64,
    /// Directories that became empty and were deleted, in stores that keep directories.
    pub directories: u64,
    /// A few of the names of these metrics.
    pub examples: Vec<String>,
    /// Whether nothing was deleted, because the deletion of so many metrics needs a confirmation.
    pub wants_confirmation: bool,
    /// For a time range: the number of points in it. Only a dry run counts the points in the store.
    pub points: u64,
    /// For a time range: the number of windows of coarser stages within it. Only a dry run counts them.
    pub windows: u64,
    /// For a time range: the number of windows at its borders that were folded again from the remaining
    /// points.
    pub folded: u64,
    /// For a time range: the number of windows at its borders that stay as they are, because the points from
    /// which they were folded have expired.
    pub kept: u64,
}

/// Deletes metrics whose deletion has begun, ends the deletions, and counts the metrics.
///
/// # Errors
/// If the store fails; the metrics are loaded again then.
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

/// Waits until a power cut cannot bring back what was deleted.
///
/// # Errors
/// If the store cannot be synced.
pub(crate) async fn make_durable(work: &Work) -> Result<(), VerbError> {
    if let Some(flush) = work.stores.states.clone() {
        blocking("make the deletion durable", move || flush.sync()).await?;
    }
    Ok(())
}

/// Deletes metrics, and counts them.
///
/// # Errors
/// If the store fails, or the run is cancelled.
pub(crate) async fn delete_each(
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
            // Read before the deletion begins, so that the metrics can be loaded again if the store fails.
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

/// Deletes from the stores the metrics whose deletion has begun, and ends the deletions.
async fn delete_begun(
    work: &Work,
    names: &[&str],
    mut known: Vec<Option<MetricMeta>>,
) -> Result<(), VerbError> {
    let mut result = Ok(());
    if known.iter().any(Option::is_none) {
        // Some metrics may have been created in between.
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
        // The stores still have parts of these metrics, so the metrics can be found and deleted again.
        let metrics: Vec<MetricMeta> = known.into_iter().flatten().collect();
        work.context.live.put_back(&metrics).await?;
    }
    Ok(result?)
}

/// Deletes the points, then the state rows, and the names last. So after a kill in between, the metrics are
/// still listed, and can be found and deleted again.
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

/// Runs a blocking call of the store on a thread for such calls.
pub(crate) async fn blocking(
    what: &'static str,
    work: impl FnOnce() -> Result<(), StoreError> + Send + 'static,
) -> Result<(), StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::with(ErrorKind::Internal, what, error)))
}

/// Repeats a call a few times while it fails with a transient error.
pub(crate) async fn retry<T, F: Future<Output = Result<T, StoreError>>>(
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

/// Deletes the rows of directories without metrics, the deepest first. A writer may have seen a directory
/// just before its deletion, and have created a metric in it just after. So the directories are checked again
/// after `settle`, and created again where needed.
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
