//! Trying again what was put aside.

use std::collections::{BTreeMap, BTreeSet};

use plumbago_journal::spool::SpooledSlice;
use plumbago_model::MetricId;
use plumbago_store::{StoreError, WriteBatch};

use crate::gather::Table;
use crate::sender::Sender;
use crate::slice;
use crate::store::{blocking, failed};

/// Slices of one step, about.
const STEP_BYTES: usize = 1 << 20;

impl Sender {
    /// From time to time, for ever.
    pub(crate) async fn retry_parked(&self) {
        loop {
            tokio::time::sleep(self.config.parked_every).await;
            if self.store.spool.stats().parked_rows > 0
                && let Err(error) = self.pass_over_parked().await
            {
                self.store.health.failed(&error);
            }
        }
    }

    /// Goes through what was put aside, until a step in which nothing succeeds: as slices lie by
    /// metric, tables that fail are all seen in the first one.
    async fn pass_over_parked(&self) -> Result<(), StoreError> {
        let mut last: Option<SpooledSlice> = None;
        let mut failing = BTreeSet::new();
        loop {
            let (spool, after) = (self.store.spool.clone(), last.take());
            let step = blocking("read the spool", move || {
                spool.next_parked(after.as_ref(), STEP_BYTES).map_err(|error| failed("read the spool", error))
            })
            .await?;
            last = step.last().cloned();
            if step.is_empty() {
                return Ok(());
            }
            let arrived = self.try_step(step, &mut failing).await;
            if arrived.is_empty() {
                return Ok(());
            }
            let spool = self.store.spool.clone();
            blocking("take rows back", move || {
                spool.unpark(&arrived).map_err(|error| failed("take rows back", error))
            })
            .await?;
        }
    }

    /// Sends slices, those of one timestamp and table together, each call once; returns those that
    /// arrived wholly.
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
            let sent = !failing.contains(&table) && self.try_once(&batch, timestamp_us).await.is_ok();
            if !sent {
                failing.insert(table);
                from.into_iter().for_each(|at| arrived[at] = false);
            }
        }
        step.into_iter().zip(arrived).filter(|(_, arrived)| *arrived).map(|(slice, _)| slice).collect()
    }
}
