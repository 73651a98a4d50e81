//! Late points: their slots are before the base of the head, so they go to the store directly.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use plumbago_model::{Aggregation, Window};

use super::Shard;
use super::flush::Extent;
use crate::router::NameHash;
use crate::shard::head_state::LateEvent;
use crate::shard::jobs::{Flushes, LateDone, LateJob, LateMetric, OpenPart};

/// Pending late points at which the shard stops taking points.
const POINTS_MAX: usize = 262_144;
/// Late points at which no further metric is added to a job.
const JOB_POINTS: usize = 8192;
/// Metrics in one flush that has to precede late points.
const FLUSH_MAX: usize = 1000;

/// Late points of a shard: pending ones, and those in flight to the store.
#[derive(Debug, Default)]
pub(crate) struct LateList {
    /// Pending points by metric.
    metrics: Vec<LateMetric>,
    /// The position in `metrics` of each head.
    place: HashMap<u32, usize>,
    /// For each head, the first journal sequence of each of its jobs in flight.
    in_flight: HashMap<u32, VecDeque<u64>>,
    /// Pending points.
    points: usize,
}

impl LateList {
    pub(crate) fn is_full(&self) -> bool {
        self.points >= POINTS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// The journal sequence up to which a state row covers a metric: pending points are in no row yet.
    pub(crate) fn known_until(&self, at: u32, sequence: u64) -> u64 {
        self.place.get(&at).map_or(sequence, |place| self.metrics[*place].first_sequence - 1)
    }

    /// The journal sequence of the oldest late point of a metric that is not stored.
    fn oldest(&self, at: u32) -> Option<u64> {
        let in_flight = self.in_flight.get(&at).and_then(|jobs| jobs.front());
        in_flight.copied().or_else(|| self.place.get(&at).map(|place| self.metrics[*place].first_sequence))
    }

    /// The journal segment of a metric's first pending point.
    pub(crate) fn segment(&self, at: u32) -> Option<u32> {
        self.place.get(&at).map(|place| self.metrics[*place].segment)
    }

    /// True when late points of a metric are in flight.
    pub(crate) fn is_in_flight(&self, at: u32) -> bool {
        self.in_flight.contains_key(&at)
    }

    /// True when all late points up to this journal sequence are stored.
    pub(crate) fn are_stored(&self, sequence: u64) -> bool {
        let pending = self.metrics.iter().map(|metric| metric.first_sequence);
        let in_flight = self.in_flight.values().filter_map(|jobs| jobs.front().copied());
        pending.chain(in_flight).all(|first| first > sequence)
    }

    /// True when no late point is pending or in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.metrics.is_empty() && self.in_flight.is_empty()
    }
}

impl Shard {
    /// Adds a late point that is already in the journal.
    pub(crate) fn push_late(&mut self, at: u32, stage: u8, slot: u32, value: f64, now: i64) {
        let head = &mut self.heads[at];
        head.state.on_late(LateEvent::Arrive);
        self.stats.late.add(1);
        let list = &mut self.late;
        let place = *list.place.entry(at).or_insert_with(|| {
            list.metrics.push(LateMetric {
                at,
                id: head.id,
                layout: Arc::clone(&self.layouts[usize::from(head.config)]),
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
            let end = slot.saturating_add(1).saturating_mul(metric.layout.per[usize::from(stage) - 1]);
            metric.aged_until = metric.aged_until.max(end);
        }
        list.points += 1;
    }

    /// Builds the next job, of metrics without a flush in flight.
    pub(crate) fn take_late(&mut self) -> Option<LateJob> {
        let mut job = LateJob::default();
        let mut points = 0;
        let mut kept = Vec::new();
        for mut metric in std::mem::take(&mut self.late.metrics) {
            let head = &self.heads[metric.at];
            let state = head.state;
            let waits = state.is_flushing() || state.is_late_deferred() || !state.is_created();
            if points >= JOB_POINTS || waits || self.holds_aged_window(&metric) {
                kept.push(metric);
                continue;
            }
            metric.base = head.base;
            points += metric.points.len();
            self.late.in_flight.entry(metric.at).or_default().push_back(metric.first_sequence);
            job.metrics.push(metric);
        }
        self.late.points -= points;
        self.late.place = kept.iter().enumerate().map(|(i, m)| (m.at, i)).collect();
        self.late.metrics = kept;
        (!job.metrics.is_empty()).then_some(job)
    }

    /// Builds a flush of heads with slots of a window that a pending point older than stage 0 replaces. If
    /// these slots were folded after that point, they would overwrite it. Call it before
    /// [`Shard::take_late`].
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

    /// True when all late points of these metrics up to this journal sequence are stored.
    pub(crate) fn late_are_stored(&self, hashes: &[NameHash], sequence: u64) -> bool {
        if self.late.is_idle() {
            return true;
        }
        let is_stored = |at: u32| self.late.oldest(at).is_none_or(|oldest| oldest > sequence);
        hashes.iter().all(|hash| self.find(hash).is_none_or(is_stored))
    }

    /// True when the head must be flushed before these late points are stored.
    fn holds_aged_window(&self, metric: &LateMetric) -> bool {
        let head = &self.heads[metric.at];
        let all = || self.flush_until(head, &metric.layout, Extent::All { now: metric.now });
        // A window that stays open even after a whole flush is kept by the head.
        metric.aged_until > head.base && metric.aged_until <= all()
    }

    /// Handles late points that were stored.
    pub(crate) fn late_done(&mut self, done: Vec<LateDone>) {
        for metric in done {
            self.ledger.held -= u64::from(metric.points);
            self.ledger.stored += u64::from(metric.stored);
            self.ledger.replaced += u64::from(metric.points - metric.stored);
            let head = &self.heads[metric.at];
            for (k, part) in metric.open.iter().enumerate() {
                let method = self.layouts[usize::from(head.config)].config.aggregation;
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
            let left = self.late.in_flight.entry(metric.at).or_default();
            left.pop_front();
            if left.is_empty() {
                self.late.in_flight.remove(&metric.at);
                if !self.late.place.contains_key(&metric.at) {
                    self.heads[metric.at].state.on_late(LateEvent::Store);
                    self.check_due(metric.at);
                }
            }
        }
    }
}

/// Applies late values to this writer's part of a window that other writers have parts of as well. Each value
/// comes with the one that it replaced, if any. A replaced value can be subtracted from a sum, but not taken
/// out of a minimum or maximum.
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
