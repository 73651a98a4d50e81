//! Points whose slot the head no longer holds, on their way to the store.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use plumbago_model::{Aggregation, Window};

use super::Shard;
use super::flush::Extent;
use crate::head::flag;
use crate::jobs::{Flushes, LateDone, LateJob, LateMetric, OpenPart};
use crate::router::NameHash;

/// Late points held before reading pauses.
const POINTS_MAX: usize = 262_144;
/// Points in one job.
const JOB_POINTS: usize = 8192;

/// Metrics in one flush that goes before late points.
const FLUSH_MAX: usize = 1000;

/// Late points by metric, and the first sequence of each job of a metric that is under way.
#[derive(Debug, Default)]
pub(crate) struct LateList {
    metrics: Vec<LateMetric>,
    place: HashMap<u32, usize>,
    under_way: HashMap<u32, VecDeque<u64>>,
    points: usize,
}

impl LateList {
    pub(crate) fn is_full(&self) -> bool {
        self.points >= POINTS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// The sequence up to which a state row may vouch for a metric: pending points are in no row yet.
    pub(crate) fn known_until(&self, at: u32, sequence: u64) -> u64 {
        self.place.get(&at).map_or(sequence, |place| self.metrics[*place].first_sequence - 1)
    }

    /// The sequence of the oldest point of a metric that the store does not have yet.
    fn oldest(&self, at: u32) -> Option<u64> {
        let under_way = self.under_way.get(&at).and_then(|jobs| jobs.front());
        under_way.copied().or_else(|| self.place.get(&at).map(|place| self.metrics[*place].first_sequence))
    }

    /// The journal segment of the first late point of a metric that waits.
    pub(crate) fn segment(&self, at: u32) -> Option<u32> {
        self.place.get(&at).map(|place| self.metrics[*place].segment)
    }

    /// True when late points of a metric are on their way to the store.
    pub(crate) fn is_under_way(&self, at: u32) -> bool {
        self.under_way.contains_key(&at)
    }

    /// True when the store has all points that came up to this sequence.
    pub(crate) fn are_stored(&self, sequence: u64) -> bool {
        let waiting = self.metrics.iter().map(|metric| metric.first_sequence);
        let under_way = self.under_way.values().filter_map(|jobs| jobs.front().copied());
        waiting.chain(under_way).all(|first| first > sequence)
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
                first_sequence: self.sequence,
                segment: self.segment,
                aged_until: 0,
                points: Vec::new(),
            });
            list.metrics.len() - 1
        });
        let metric = &mut list.metrics[place];
        metric.points.push((stage, slot, value));
        if stage > 0 {
            let end = slot.saturating_add(1).saturating_mul(metric.plan.per[usize::from(stage) - 1]);
            metric.aged_until = metric.aged_until.max(end);
        }
        list.points += 1;
    }

    /// The next job, of metrics that no flush is moving right now.
    pub(crate) fn take_late(&mut self) -> Option<LateJob> {
        let mut job = LateJob::default();
        let mut points = 0;
        let mut kept = Vec::new();
        for mut metric in std::mem::take(&mut self.late.metrics) {
            let head = &self.heads[metric.at];
            let waits = head.is(flag::IN_FLIGHT | flag::HOLDS_LATE) || !head.is(flag::CREATED);
            if points >= JOB_POINTS || waits || self.holds_aged_window(&metric) {
                kept.push(metric);
                continue;
            }
            metric.base = head.base;
            points += metric.points.len();
            self.late.under_way.entry(metric.at).or_default().push_back(metric.first_sequence);
            job.metrics.push(metric);
        }
        self.late.points -= points;
        self.late.place = kept.iter().enumerate().map(|(i, m)| (m.at, i)).collect();
        self.late.metrics = kept;
        (!job.metrics.is_empty()).then_some(job)
    }

    /// A flush of the heads that hold slots of windows which older points replace: folded later, those
    /// slots would take the windows back. Comes before [`Shard::take_late`].
    pub(crate) fn take_aged(&mut self, segment: u32, now: i64) -> Option<Flushes> {
        let ready = |metric: &&LateMetric| {
            metric.aged_until > 0 && self.may_flush(metric.at) && self.holds_aged_window(metric)
        };
        let metrics: Vec<u32> =
            self.late.metrics.iter().filter(ready).take(FLUSH_MAX).map(|metric| metric.at).collect();
        let mut flushes = Flushes::default();
        for at in metrics {
            self.build(at, Extent::All { now }, segment, &mut flushes);
        }
        (flushes.len() > 0).then_some(flushes)
    }

    /// True when no late point of these metrics that came up to this sequence is on its way.
    pub(crate) fn late_are_stored(&self, hashes: &[NameHash], sequence: u64) -> bool {
        if self.late.is_idle() {
            return true;
        }
        let is_stored = |at: u32| self.late.oldest(at).is_none_or(|oldest| oldest > sequence);
        hashes.iter().all(|hash| self.find(hash).is_none_or(is_stored))
    }

    /// True when a flush of the head has to go before these late points.
    fn holds_aged_window(&self, metric: &LateMetric) -> bool {
        let head = &self.heads[metric.at];
        let all = || self.flush_until(head, &metric.plan, Extent::All { now: metric.now });
        // A window that even a whole flush leaves open stays with the head.
        metric.aged_until > head.base && metric.aged_until <= all()
    }

    pub(crate) fn late_done(&mut self, done: Vec<LateDone>) {
        for metric in done {
            self.ledger.held -= u64::from(metric.points);
            self.ledger.stored += u64::from(metric.stored);
            self.ledger.replaced += u64::from(metric.points - metric.stored);
            let head = &self.heads[metric.at];
            for (k, part) in metric.open.iter().enumerate() {
                let method = self.plans[usize::from(head.config)].config.aggregation;
                let at = head.windows + k as u32;
                self.windows[at] = match part {
                    None => continue,
                    Some(OpenPart::Folded(0, known)) => *known,
                    Some(OpenPart::Folded(source, known)) => {
                        method.merge(*known, self.windows[head.windows + *source as u32 - 1])
                    }
                    Some(OpenPart::Changed(values)) => changed(method, self.windows[at], values),
                };
            }
            let left = self.late.under_way.entry(metric.at).or_default();
            left.pop_front();
            if left.is_empty() {
                self.late.under_way.remove(&metric.at);
                if !self.late.place.contains_key(&metric.at) {
                    self.heads[metric.at].clear(flag::STALE);
                    self.look_whether_due(metric.at);
                }
            }
        }
    }
}

/// Our part of a window that others have a part of as well, after late values, each with the one it
/// replaced. What was folded cannot be taken out of extremes again; for sums it can.
fn changed(method: Aggregation, mut window: Window, values: &[(f64, Option<f64>)]) -> Window {
    for (new, old) in values {
        match (method, old) {
            (Aggregation::Last | Aggregation::Percentile(_), _) if window.count > 0 => {
                window.count += u32::from(old.is_none());
            }
            (_, None) => method.fold(&mut window, *new),
            (Aggregation::Average | Aggregation::AvgZero | Aggregation::Sum, Some(old)) => {
                window.value += new - old;
            }
            (Aggregation::Count, Some(_)) => {}
            (_, Some(_)) => {
                let count = window.count;
                method.fold(&mut window, *new);
                window.count = count.max(1);
            }
        }
    }
    window
}
