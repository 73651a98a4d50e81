//! Retrying deferred slices.

use std::collections::{BTreeMap, BTreeSet};

use crate::queue::SpooledSlice;
use plumbago_model::MetricId;
use plumbago_store::{ErrorKind, StoreError, WriteBatch};

use crate::calls::Table;
use crate::sender::Sender;
use crate::slice;
use crate::store::{blocking, failed};

/// Approximate size of the slices that are read in one step, in bytes.
const STEP_BYTES: usize = 1 << 20;
/// A pass ends after this many steps in a row in which nothing was acknowledged. Otherwise, if many slices
/// cannot be sent, each pass would read all of them again.
const VAIN_STEPS_MAX: usize = 16;

impl Sender {
    /// Retries deferred slices at an interval; never returns.
    pub(crate) async fn retry_deferred(&self) {
        let mut behind = None;
        loop {
            tokio::time::sleep(self.config.retry_deferred_every).await;
            if self.store.spool.stats().deferred_rows == 0 {
                continue;
            }
            match self.pass_over_deferred(behind.take()).await {
                Ok(last) => behind = last,
                Err(error) => self.store.health.failed(&error),
            }
        }
    }

    /// Retries the deferred slices after `behind`, up to the end, or until too many steps in a row have
    /// failed. In the second case returns the last slice tried, so that the next pass continues after it. In
    /// this way every slice is tried sooner or later, however many cannot be sent.
    async fn pass_over_deferred(
        &self,
        behind: Option<SpooledSlice>,
    ) -> Result<Option<SpooledSlice>, StoreError> {
        let mut last = behind;
        let (mut failing, mut vain_steps) = (BTreeSet::new(), 0);
        while vain_steps < VAIN_STEPS_MAX {
            let (spool, after) = (self.store.spool.clone(), last.take());
            let step = blocking("read the spool", move || {
                spool
                    .next_deferred(after.as_ref(), STEP_BYTES)
                    .map_err(|error| failed("read the spool", error))
            })
            .await?;
            let Some(end) = step.last().cloned() else { return Ok(None) };
            last = Some(end);
            let arrived = self.try_step(step, &mut failing).await;
            if arrived.is_empty() {
                vain_steps += 1;
                continue;
            }
            vain_steps = 0;
            let spool = self.store.spool.clone();
            blocking("retain deferred rows", move || {
                spool.retain_deferred(&arrived).map_err(|error| failed("retain deferred rows", error))
            })
            .await?;
        }
        Ok(last)
    }

    /// Sends slices in one call per timestamp and table. Each call is tried once. Returns the slices that were
    /// acknowledged completely. Tables that the store refuses are added to `failing` and skipped from then on.
    async fn try_step(&self, step: Vec<SpooledSlice>, failing: &mut BTreeSet<Table>) -> Vec<SpooledSlice> {
        let (calls, damaged) = by_time_and_table(&step);
        self.store.stats.damaged.add(damaged);
        let mut arrived = vec![true; step.len()];
        for ((timestamp_us, table), (batch, from)) in calls {
            // As in a refusal, an empty list means all runs.
            let mut refused = Vec::new();
            if !failing.contains(&table) {
                let Err(refusal) = self.try_once(&batch, timestamp_us).await else { continue };
                self.store.health.note_deferral(&refusal.error);
                if refusal.error.kind == ErrorKind::Invalid {
                    failing.insert(table);
                }
                refused = refusal.runs.into_iter().map(|run| from[run]).collect();
            }
            let stay = if refused.is_empty() { from } else { refused };
            stay.into_iter().for_each(|at| arrived[at] = false);
        }
        step.into_iter().zip(arrived).filter(|(_, arrived)| *arrived).map(|(slice, _)| slice).collect()
    }
}

/// A call for each timestamp and table: its runs, and for each run the position of its slice.
pub(super) type TimedCalls = BTreeMap<(i64, Table), (WriteBatch, Vec<usize>)>;

/// Cuts slices into calls in which each slice keeps its timestamp. Also returns how many slices were damaged.
pub(super) fn by_time_and_table(slices: &[SpooledSlice]) -> (TimedCalls, u64) {
    let mut calls = TimedCalls::new();
    let mut runs = WriteBatch::default();
    let mut damaged = 0;
    for (at, slice) in slices.iter().enumerate() {
        runs.clear();
        if slice::read(MetricId(slice.id), slice.bytes(), &mut runs).is_err() {
            damaged += 1;
            continue;
        }
        for run in &runs.runs {
            let (batch, from) = calls.entry((slice.timestamp_us, Table::of(run))).or_default();
            batch.push(*run, runs.values(run), Some(runs.counts(run)));
            from.push(at);
        }
    }
    (calls, damaged)
}
