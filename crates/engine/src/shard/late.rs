//! Points whose slot the head no longer holds, on their way to the store.

use std::collections::HashMap;
use std::sync::Arc;

use super::Shard;
use crate::head::flag;
use crate::jobs::{LateDone, LateJob, LateMetric};

/// Late points held before reading pauses.
const POINTS_MAX: usize = 262_144;
/// Points in one job.
const JOB_POINTS: usize = 8192;

/// Late points by metric, and how many jobs of a metric are under way.
#[derive(Debug, Default)]
pub(crate) struct LateList {
    metrics: Vec<LateMetric>,
    place: HashMap<u32, usize>,
    under_way: HashMap<u32, u32>,
    points: usize,
}

impl LateList {
    pub(crate) fn is_full(&self) -> bool {
        self.points >= POINTS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// True when nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.metrics.is_empty() && self.under_way.is_empty()
    }
}

impl Shard {
    pub(crate) fn push_late(&mut self, at: u32, stage: u8, slot: u32, value: f64, now: i64) {
        let head = &mut self.heads[at];
        head.set(flag::STALE);
        self.stats.late.add(1);
        let list = &mut self.late;
        let place = *list.place.entry(at).or_insert_with(|| {
            list.metrics.push(LateMetric {
                at,
                id: head.id,
                plan: Arc::clone(&self.plans[usize::from(head.config)]),
                base: 0,
                now,
                points: Vec::new(),
            });
            list.metrics.len() - 1
        });
        list.metrics[place].points.push((stage, slot, value));
        list.points += 1;
    }

    /// The next job, of metrics that no flush is moving right now.
    pub(crate) fn take_late(&mut self) -> Option<LateJob> {
        let mut job = LateJob::default();
        let mut points = 0;
        let mut kept = Vec::new();
        for mut metric in std::mem::take(&mut self.late.metrics) {
            let head = &self.heads[metric.at];
            if points >= JOB_POINTS || head.is(flag::IN_FLIGHT) || !head.is(flag::CREATED) {
                kept.push(metric);
                continue;
            }
            metric.base = head.base;
            points += metric.points.len();
            *self.late.under_way.entry(metric.at).or_default() += 1;
            job.metrics.push(metric);
        }
        self.late.points -= points;
        self.late.place = kept.iter().enumerate().map(|(i, m)| (m.at, i)).collect();
        self.late.metrics = kept;
        (!job.metrics.is_empty()).then_some(job)
    }

    pub(crate) fn late_done(&mut self, done: Vec<LateDone>) {
        for metric in done {
            self.ledger.held -= u64::from(metric.points);
            self.ledger.stored += u64::from(metric.stored);
            self.ledger.replaced += u64::from(metric.points - metric.stored);
            let head = &self.heads[metric.at];
            for (k, part) in metric.open.iter().enumerate() {
                let Some((source, known)) = part else { continue };
                let method = self.plans[usize::from(head.config)].config.aggregation;
                let mut window = *known;
                if *source > 0 {
                    window = method.merge(window, self.windows[head.windows + *source as u32 - 1]);
                }
                self.windows[head.windows + k as u32] = window;
            }
            let left = self.late.under_way.entry(metric.at).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.late.under_way.remove(&metric.at);
                if !self.late.place.contains_key(&metric.at) {
                    self.heads[metric.at].clear(flag::STALE);
                    self.look_whether_due(metric.at);
                }
            }
        }
    }
}
