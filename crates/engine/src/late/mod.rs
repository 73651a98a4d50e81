//! Rows for late points. They consist of the points' own slots, and of every window that contains a late
//! point, folded again.
//!
//! Start at [`LateWorks`]. `work` handles one metric, `refold` folds one window, and `rounds` lets the
//! metrics take turns. Percentiles of closing windows are computed in the same rounds (`close`). The reasons
//! are in `docs/decisions/late-points.md`.

pub(crate) mod close;
pub(crate) mod fold;
pub(crate) mod refold;
pub(crate) mod rounds;
pub(crate) mod work;

use plumbago_store::{FlushBatch, FlushStore, PointStore, StoreError, WriteBatch};
use tokio::runtime::Handle;

use crate::late::rounds::{Budget, Rounds};
use crate::late::work::Work;
use crate::shard::jobs::{LateDone, LateJob, OpenPart};

/// With this many points in progress, a flusher accepts no more jobs of late points.
const POINTS_MAX: usize = 32_768;

/// The late points that a flusher is working on.
#[derive(Debug, Default)]
pub(crate) struct LateWorks {
    rounds: Rounds<Work>,
    /// Work for which everything has been read, until it is committed.
    complete: Vec<Work>,
    points: usize,
}

impl LateWorks {
    pub(crate) fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// Whether another job may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.points < POINTS_MAX
    }

    /// Adds a job. No two jobs may contain the same metric.
    pub(crate) fn push(&mut self, job: LateJob) {
        for metric in job.metrics {
            self.points += metric.points.len();
            self.rounds.push(Work::new(metric));
        }
    }

    /// Does one read, folds its slots, and commits the metrics that need no more reads. Returns these
    /// metrics.
    ///
    /// # Errors
    ///
    /// If the store fails. The next call continues at this point: nothing is read or counted twice.
    pub(crate) fn step(
        &mut self,
        flush: &dyn FlushStore,
        points: &dyn PointStore,
        runtime: &Handle,
        budget: &Budget,
    ) -> Result<Vec<LateDone>, StoreError> {
        if self.complete.is_empty() {
            self.complete = runtime.block_on(self.rounds.read(points, budget))?;
        }
        if self.complete.is_empty() {
            return Ok(Vec::new());
        }
        let (rows, done) = runtime.block_on(finish(points, &self.complete))?;
        flush.commit(&FlushBatch { rows, states: Vec::new() })?;
        self.points -= self.complete.iter().map(Work::points).sum::<usize>();
        self.complete.clear();
        Ok(done)
    }
}

/// The rows of this work, without what other writers have stored.
async fn finish(store: &dyn PointStore, works: &[Work]) -> Result<(WriteBatch, Vec<LateDone>), StoreError> {
    let mut batches = vec![WriteBatch::default()];
    let mut done = Vec::with_capacity(works.len());
    for work in works {
        work.push_rows(&mut batches);
        done.push(work.done());
    }
    for batch in &mut batches {
        store.subtract_other_writers(batch).await?;
    }
    for (at, k) in shared_windows(store, works, &done).await? {
        done[at].open[k] = Some(OpenPart::Changed(works[at].changes(k)));
    }
    Ok((joined(batches), done))
}

fn joined(batches: Vec<WriteBatch>) -> WriteBatch {
    let mut batches = batches.into_iter();
    let mut whole = batches.next().unwrap_or_default();
    for batch in batches {
        for run in &batch.runs {
            whole.push(*run, batch.values(run), Some(batch.counts(run)));
        }
    }
    whole
}

/// Finds the open windows that are partly stored by other writers. Returns the position of the work and the
/// index of the coarse stage. The parts of other writers cannot be subtracted, because they may include slots
/// after the head's base.
async fn shared_windows(
    store: &dyn PointStore,
    works: &[Work],
    done: &[LateDone],
) -> Result<Vec<(usize, usize)>, StoreError> {
    let (mut batch, mut places) = (WriteBatch::default(), Vec::new());
    for (at, (work, done)) in works.iter().zip(done).enumerate() {
        let metric = work.metric();
        for (k, part) in done.open.iter().enumerate() {
            let Some(OpenPart::Folded(_, window)) = part else { continue };
            let slot = metric.base / metric.layout.per[k];
            batch.push(
                metric.layout.run(metric.id, k + 1, slot),
                &[window.value],
                Some(&[window.count.into()]),
            );
            places.push((at, k));
        }
    }
    if batch.runs.is_empty() {
        return Ok(places);
    }
    let before = batch.counts.clone();
    store.subtract_other_writers(&mut batch).await?;
    let mut left = before.iter().zip(&batch.counts).map(|(before, after)| before != after);
    places.retain(|_| left.next().unwrap_or(false));
    Ok(places)
}
