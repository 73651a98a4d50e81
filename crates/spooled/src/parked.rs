//! Trying again what was put aside.

use std::collections::{BTreeMap, BTreeSet};

use plumbago_journal::spool::SpooledSlice;
use plumbago_model::MetricId;
use plumbago_store::{ErrorKind, StoreError, WriteBatch};

use crate::gather::Table;
use crate::sender::Sender;
use crate::slice;
use crate::store::{blocking, failed};

/// Slices of one step, about.
const STEP_BYTES: usize = 1 << 20;
/// Steps in a row of which nothing arrives before a pass ends: what cannot be sent may be much, and each
/// pass reads it again.
const VAIN_STEPS_MAX: usize = 16;

impl Sender {
    /// From time to time, for ever.
    pub(crate) async fn retry_parked(&self) {
        let mut behind = None;
        loop {
            tokio::time::sleep(self.config.parked_every).await;
            if self.store.spool.stats().parked_rows == 0 {
                continue;
            }
            match self.pass_over_parked(behind.take()).await {
                Ok(last) => behind = last,
                Err(error) => self.store.health.failed(&error),
            }
        }
    }

    /// Goes through what was put aside behind a slice, to the end or until many steps in a row were in
    /// vain. Gives the last slice then: the next pass goes on behind it, so that what can be sent has its
    /// turn however much lies before it that cannot.
    async fn pass_over_parked(
        &self,
        behind: Option<SpooledSlice>,
    ) -> Result<Option<SpooledSlice>, StoreError> {
        let mut last = behind;
        let (mut failing, mut vain_steps) = (BTreeSet::new(), 0);
        while vain_steps < VAIN_STEPS_MAX {
            let (spool, after) = (self.store.spool.clone(), last.take());
            let step = blocking("read the spool", move || {
                spool.next_parked(after.as_ref(), STEP_BYTES).map_err(|error| failed("read the spool", error))
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
            blocking("take rows back", move || {
                spool.unpark(&arrived).map_err(|error| failed("take rows back", error))
            })
            .await?;
        }
        Ok(last)
    }

    /// Sends slices, those of one timestamp and table together, each call once; returns those that
    /// arrived wholly. Tables that the store does not take go into `failing` and are not tried again.
    async fn try_step(&self, step: Vec<SpooledSlice>, failing: &mut BTreeSet<Table>) -> Vec<SpooledSlice> {
        let mut calls: BTreeMap<(i64, Table), (WriteBatch, Vec<usize>)> = BTreeMap::new();
        let mut runs = WriteBatch::default();
        let mut arrived = vec![true; step.len()];
        for (at, slice) in step.iter().enumerate() {
            runs.clear();
            if slice::read(MetricId(slice.id), slice.bytes(), &mut runs).is_err() {
                self.store.stats.damaged.add(1);
                continue;
            }
            for run in &runs.runs {
                let (batch, from) = calls.entry((slice.timestamp_us, Table::of(run))).or_default();
                batch.push(*run, runs.values(run), Some(runs.counts(run)));
                from.push(at);
            }
        }
        for ((timestamp_us, table), (batch, from)) in calls {
            // As in a refusal: none means all.
            let mut refused = Vec::new();
            if !failing.contains(&table) {
                let Err(refusal) = self.try_once(&batch, timestamp_us).await else { continue };
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
