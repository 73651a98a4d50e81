//! Late points. Their slots are before the base of the head, so they go directly to the store.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use plumbago_model::{Aggregation, Stage, Window};

use super::Shard;
use super::flush::Extent;
use crate::router::NameHash;
use crate::shard::downsample::MetricLayout;
use crate::shard::head_state::LateEvent;
use crate::shard::jobs::{Flushes, LateDone, LateJob, LateMetric, LatePoint, OpenPart};
use crate::shard::waiting::Waiting;

/// With this many points in a job, no further metric is added to it.
const JOB_POINTS: usize = 8192;
/// Largest number of points of one metric in a job.
const METRIC_POINTS: usize = 4000;
/// Number of metrics with pending points that one call checks, so that metrics which cannot be stored yet
/// take little time.
const METRICS_LOOKED_AT: usize = 16_384;
/// Largest number of metrics in a flush that has to precede late points.
const FLUSH_MAX: usize = 1000;

/// The late points of a shard: pending ones, those in flight to the store, and those that wait in the
/// journal.
#[derive(Debug, Default)]
pub(crate) struct LateList {
    /// Pending points by head.
    pending: HashMap<u32, LateMetric>,
    /// The heads in `pending`, in the order in which they get their turn.
    order: VecDeque<u32>,
    /// The heads in `pending` with points older than stage 0.
    aged: BTreeSet<u32>,
    /// The head at which the next search through `aged` starts.
    aged_next: u32,
    /// The heads with points in flight, with the journal sequence of the first of these points.
    in_flight: HashMap<u32, u64>,
    /// The number of pending points.
    points: usize,
    pub(super) waiting: Waiting,
    /// Metrics for which a job waits until they are at rest. None of their points go to the store meanwhile.
    pub(super) awaited: HashSet<NameHash>,
    /// Used during a start: heads whose state row was written by a change of settings, or before such a
    /// change.
    pub(super) changed: HashSet<u32>,
}

impl LateList {
    /// Whether nothing is pending. Points may still be in flight or wait in the journal.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Keeps a head from being flushed while its history is stored. Reads do not wait for it.
    pub(super) fn begin_import(&mut self, at: u32) {
        self.in_flight.insert(at, u64::MAX);
    }

    /// Ends [`LateList::begin_import`].
    pub(super) fn end_import(&mut self, at: u32) {
        self.in_flight.remove(&at);
    }

    /// The number of pending points.
    pub(crate) fn points(&self) -> usize {
        self.points
    }

    /// The journal sequence up to which a state row may cover a metric. Pending points are not in any row
    /// yet.
    pub(crate) fn known_until(&self, at: u32, sequence: u64) -> u64 {
        let pending = self.pending.get(&at).map(LateMetric::first_sequence);
        pending.or_else(|| self.waiting.first_sequence(at)).map_or(sequence, |first| first - 1)
    }

    /// The journal sequence of the oldest late point of a metric that is on its way to the store.
    fn oldest(&self, at: u32) -> Option<u64> {
        let in_flight = self.in_flight.get(&at).copied();
        in_flight.or_else(|| self.pending.get(&at).map(LateMetric::first_sequence))
    }

    /// The journal segment of the first pending point of a metric.
    pub(crate) fn segment(&self, at: u32) -> Option<u32> {
        self.pending.get(&at).map(|metric| metric.segment).or_else(|| self.waiting.segment(at))
    }

    /// Whether late points of a metric are in flight.
    pub(crate) fn is_in_flight(&self, at: u32) -> bool {
        self.in_flight.contains_key(&at)
    }

    /// Whether all late points up to this journal sequence are stored.
    pub(crate) fn are_stored(&self, sequence: u64) -> bool {
        let pending = self.pending.values().map(LateMetric::first_sequence);
        let in_flight = self.in_flight.values().copied();
        pending.chain(in_flight).chain(self.waiting.first_sequences()).all(|first| first > sequence)
    }

    /// Whether no late point is pending, in flight or waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.in_flight.is_empty() && self.waiting.is_empty()
    }

    /// Drops the points of a head that are pending or wait in the journal. Returns how many there were.
    pub(super) fn discard(&mut self, at: u32) -> u64 {
        let pending = self.take(at, usize::MAX).map_or(0, |metric| metric.points.len() as u64);
        pending + self.waiting.discard(at)
    }

    /// Changes the pending points of a head. Points for which `keep` returns false are dropped. Returns how
    /// many were dropped.
    pub(super) fn retain(&mut self, at: u32, mut keep: impl FnMut(&mut LatePoint) -> bool) -> u64 {
        let Some(metric) = self.pending.get_mut(&at) else { return 0 };
        let before = metric.points.len();
        metric.points.retain_mut(&mut keep);
        let dropped = before - metric.points.len();
        if metric.points.is_empty() {
            self.pending.remove(&at);
            self.aged.remove(&at);
        }
        self.points -= dropped;
        dropped as u64
    }

    /// Moves the pending points of a head to the stages of a new layout.
    pub(super) fn change_layout(&mut self, at: u32, layout: &Arc<MetricLayout>, now: i64) {
        let Some(metric) = self.pending.get_mut(&at) else { return };
        let old = std::mem::replace(&mut metric.layout, Arc::clone(layout));
        let retention = &layout.config.retention;
        metric.aged_until = 0;
        for point in &mut metric.points {
            let resolution = old.stage(usize::from(point.stage)).resolution;
            let time = point.slot.saturating_mul(resolution);
            let age = now - i64::from(time);
            let fits = |stage: &Stage| stage.resolution == resolution && stage.duration() as i64 >= age;
            let same = retention.stages().iter().position(fits);
            let stage = same.or_else(|| retention.stage_for_age(age)).unwrap_or(layout.coarse());
            (point.stage, point.slot) = (stage as u8, layout.stage(stage).slot(time));
            if stage > 0 {
                let end = point.slot.saturating_add(1).saturating_mul(layout.per[stage - 1]);
                metric.aged_until = metric.aged_until.max(end);
            }
        }
        if metric.aged_until == 0 {
            self.aged.remove(&at);
        } else {
            self.aged.insert(at);
        }
    }

    /// Takes out pending points of a head, the oldest first.
    fn take(&mut self, at: u32, points_max: usize) -> Option<LateMetric> {
        let metric = self.pending.get_mut(&at)?;
        let taken = if metric.points.len() > points_max {
            let rest = metric.points.split_off(points_max);
            let points = std::mem::replace(&mut metric.points, rest);
            LateMetric { points, ..metric.without_points() }
        } else {
            self.aged.remove(&at);
            self.pending.remove(&at)?
        };
        self.points -= taken.points.len();
        Some(taken)
    }
}

impl Shard {
    /// Adds a late point that is already in the journal. It waits there if memory has no room for it.
    pub(crate) fn push_late(&mut self, at: u32, stage: u8, slot: u32, value: f64, now: i64) {
        let head = &mut self.heads[at];
        head.state.on_late(LateEvent::Arrive);
        self.stats.late.add(1);
        let (sequence, segment) = (self.sequence, self.segment);
        if self.late.waiting.is_on() {
            return self.late.waiting.add(at, head.number, head.base, sequence, segment);
        }
        self.push_pending(at, LatePoint { sequence, value, slot, stage }, segment, now);
    }

    /// Adds a late point to those that are stored next.
    pub(super) fn push_pending(&mut self, at: u32, point: LatePoint, segment: u32, now: i64) {
        let head = &self.heads[at];
        let list = &mut self.late;
        let metric = list.pending.entry(at).or_insert_with(|| {
            list.order.push_back(at);
            LateMetric {
                at,
                id: head.id,
                layout: Arc::clone(&self.layouts[usize::from(head.config)]),
                base: 0,
                now,
                segment,
                aged_until: 0,
                points: Vec::with_capacity(1),
            }
        });
        metric.points.push(point);
        if point.stage > 0 {
            let per = metric.layout.per[usize::from(point.stage) - 1];
            let end = point.slot.saturating_add(1).saturating_mul(per);
            metric.aged_until = metric.aged_until.max(end);
            list.aged.insert(at);
        }
        list.points += 1;
    }

    /// Builds the next job, from metrics that have neither a flush nor late points in flight.
    pub(crate) fn take_late(&mut self) -> Option<LateJob> {
        let mut job = LateJob::default();
        let mut room = JOB_POINTS;
        for _ in 0..self.late.order.len().min(METRICS_LOOKED_AT) {
            if room == 0 {
                break;
            }
            let Some(at) = self.late.order.pop_front() else { break };
            if self.may_store_late(at)
                && let Some(mut metric) = self.late.take(at, room.min(METRIC_POINTS))
            {
                metric.base = self.heads[at].base;
                room -= metric.points.len();
                self.late.in_flight.insert(at, metric.first_sequence());
                job.metrics.push(metric);
            }
            if self.late.pending.contains_key(&at) {
                self.late.order.push_back(at);
            }
        }
        (!job.metrics.is_empty()).then_some(job)
    }

    fn may_store_late(&self, at: u32) -> bool {
        let state = self.heads[at].state;
        let waits = state.is_flushing() || state.is_late_deferred() || !state.is_created();
        let is_held = || self.late.pending.get(&at).is_some_and(|metric| self.holds_aged_window(metric));
        !waits && !self.late.is_in_flight(at) && !self.is_awaited(at) && !is_held()
    }

    /// Whether no point of the metric may go to the store for now.
    pub(super) fn is_awaited(&self, at: u32) -> bool {
        !self.late.awaited.is_empty() && self.late.awaited.contains(&self.heads[at].hash)
    }

    /// A pending point that is older than stage 0 replaces a whole window. Builds a flush of the heads that
    /// still hold slots of such a window: if these slots were folded after the point was stored, they would
    /// overwrite it. Call this before [`Shard::take_late`].
    pub(crate) fn take_aged(&mut self, segment: u32, now: i64) -> Option<Flushes> {
        if self.late.aged.is_empty() {
            return None;
        }
        let next = self.late.aged_next;
        let heads = self.late.aged.range(next..).chain(self.late.aged.range(..next));
        let heads: Vec<u32> = heads.take(FLUSH_MAX).copied().collect();
        self.late.aged_next = heads.last().map_or(0, |at| at + 1);
        let mut flushes = Flushes::default();
        for at in heads {
            let is_held = || self.late.pending.get(&at).is_some_and(|metric| self.holds_aged_window(metric));
            if self.may_flush(at) && is_held() {
                self.build(at, Extent::All { now }, segment, &mut flushes);
            }
        }
        (flushes.len() > 0).then_some(flushes)
    }

    /// Whether all late points of these metrics up to this journal sequence are stored.
    pub(crate) fn late_are_stored(&self, hashes: &[NameHash], sequence: u64) -> bool {
        if self.late.is_idle() {
            return true;
        }
        let is_stored = |at: u32| self.late.oldest(at).is_none_or(|oldest| oldest > sequence);
        hashes.iter().all(|hash| self.find(hash).is_none_or(is_stored))
    }

    /// Whether the head must be flushed before these late points are stored.
    fn holds_aged_window(&self, metric: &LateMetric) -> bool {
        let head = &self.heads[metric.at];
        let all = || self.flush_until(head, &metric.layout, Extent::All { now: metric.now });
        // If a window stays open even after a flush of the whole head, the head keeps the window.
        metric.aged_until > head.base && metric.aged_until <= all()
    }

    /// Handles late points that have been stored.
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
                        let mut whole = *known;
                        method.fold_window(&mut whole, self.windows[head.windows + *source as u32 - 1]);
                        whole
                    }
                    Some(OpenPart::Changed(values)) => changed(method, self.windows[at], values),
                };
            }
            self.late.in_flight.remove(&metric.at);
            self.end_late(metric.at);
        }
    }

    /// Called after late points of a head were stored or lost. The head may have other late points.
    pub(super) fn end_late(&mut self, at: u32) {
        let is_left = self.late.is_in_flight(at)
            || self.late.pending.contains_key(&at)
            || self.late.waiting.contains(at);
        if !is_left {
            self.heads[at].state.on_late(LateEvent::Store);
            self.check_due(at);
        }
    }
}

/// Applies late values to this writer's part of a window of which other writers have parts too. Each entry
/// has the new value and the value that it replaced, if any. A replaced value can be subtracted from a sum,
/// but cannot be removed from a minimum or maximum.
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
