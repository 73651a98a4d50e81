//! Building flushes and taking their acknowledgement. Slots leave a head only after the commit.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use plumbago_model::Window;
use plumbago_store::{Run, StateRow, WriteBatch};

use super::{ALLOWANCE, BATCH, Shard, Waiting};
use crate::downsample::{self, Closed, Plan};
use crate::head::{Head, OCTET, Pairs, flag};
use crate::jobs::{Close, FlushItem, FlushJob, Flushes};
use crate::state_row::State;

/// How much of its slots a flush takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Whole blocks that the allowance has left behind.
    Blocks,
    /// Every slot that the store was not handed yet, and the windows that the allowance has left
    /// behind; the windows still open too, when asked for. Slots stay until the allowance has passed.
    Interval { open: bool },
    /// Like an interval with open windows, of every method: another writer may go on from here.
    Last,
    /// Every slot, and every window that ended by this time.
    All { now: i64 },
    /// None: only the state row.
    State,
}

impl Shard {
    /// Puts a metric on the list when a block of it is complete.
    #[inline]
    pub(crate) fn look_whether_due(&mut self, at: u32) {
        let head = &mut self.heads[at];
        if !self.limits.at_intervals
            && !head.is(flag::DUE)
            && self.layout.block_start(&head.id, head.newest.saturating_sub(ALLOWANCE)) > i64::from(head.base)
        {
            head.set(flag::DUE);
            self.due.push(at);
        }
    }

    /// Builds batches of at most `metrics_max` due metrics; those that cannot go now stay due.
    pub(crate) fn take_due(&mut self, metrics_max: usize, segment: u32) -> Option<Flushes> {
        let mut flushes = Flushes::default();
        let metrics = metrics_max.min(self.flushing.len());
        let job = &mut flushes.plain;
        job.items.reserve(metrics);
        job.batch.states.reserve(metrics);
        job.batch.rows.reserve(2 * metrics, metrics * (self.layout.raw_slots as usize + 2));
        while flushes.len() < metrics_max {
            if flushes.len().is_multiple_of(BATCH) {
                self.warm(self.flushing.iter().take(BATCH).copied());
            }
            let Some(at) = self.flushing.pop_front() else { break };
            if self.may_flush(at) {
                self.heads[at].clear(flag::DUE);
                self.build(at, self.usual_extent(), segment, &mut flushes);
            } else {
                self.hold_late_back(at);
                self.due.push(at);
            }
        }
        (flushes.len() > 0).then_some(flushes)
    }

    /// Begins to flush all that is due, sorted by id: so the store writes in order, several times
    /// cheaper.
    pub(crate) fn begin_due(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        let heads = &self.heads;
        due.sort_by_cached_key(|at| heads[*at].id);
        self.flushing = due.into();
    }

    /// What a flush takes that nothing special asks for.
    pub(crate) fn usual_extent(&self) -> Extent {
        if self.limits.at_intervals {
            Extent::Interval { open: self.limits.emit_open }
        } else {
            Extent::Blocks
        }
    }

    /// What a clean stop writes.
    pub(crate) fn last_extent(&self) -> Extent {
        if self.limits.at_intervals { Extent::Last } else { Extent::State }
    }

    /// Metrics with points that only the journal holds, in id order.
    pub(crate) fn unflushed_in_id_order(&self) -> VecDeque<u32> {
        let mut metrics: Vec<u32> =
            (0..self.len() as u32).filter(|at| self.heads[*at].segment != 0).collect();
        metrics.sort_by_cached_key(|at| self.heads[*at].id);
        metrics.into()
    }

    /// All metrics with slots in their heads, or with windows that a clean stop writes, in id order.
    pub(crate) fn held_in_id_order(&self) -> VecDeque<u32> {
        let is_open = |head: &Head| {
            let method = self.plans[usize::from(head.config)].config.aggregation;
            let folds_later = method.needs_all_slots() && head.newest > 0;
            self.limits.at_intervals && (folds_later || self.open(head).iter().any(|w| w.count > 0))
        };
        let holds = |at: &u32| {
            let head = &self.heads[*at];
            head.segment != 0 || !head.is_empty() || is_open(head)
        };
        let mut metrics: Vec<u32> = (0..self.len() as u32).filter(holds).collect();
        metrics.sort_by_cached_key(|at| self.heads[*at].id);
        metrics.into()
    }

    /// True when a flush of this metric may be built. Late points that only wait come after it.
    pub(crate) fn may_flush(&self, at: u32) -> bool {
        let head = &self.heads[at];
        let late_is_under_way = || head.is(flag::STALE) && self.late.is_under_way(at);
        head.is(flag::CREATED) && !head.is(flag::IN_FLIGHT) && !late_is_under_way() && self.may_close(at)
    }

    /// A metric with late points all the time would never be flushed: the next ones wait for the flush.
    pub(crate) fn hold_late_back(&mut self, at: u32) {
        if self.late.is_under_way(at) {
            self.heads[at].set(flag::HOLDS_LATE);
        }
    }

    /// True unless its windows need slots from a store that cannot be asked.
    pub(super) fn may_close(&self, at: u32) -> bool {
        let config = || usize::from(self.heads[at].config);
        self.may_read || !self.plans[config()].config.aggregation.needs_all_slots()
    }

    /// Adds one metric's rows and state row to a batch.
    pub(crate) fn build(&mut self, at: u32, extent: Extent, segment: u32, flushes: &mut Flushes) {
        let plan = Arc::clone(&self.plans[usize::from(self.heads[at].config)]);
        let reads = plan.config.aggregation.needs_all_slots();
        let job = if reads { &mut flushes.reading } else { &mut flushes.plain };
        let head = &self.heads[at];
        let mut pairs = Pairs::new();
        head.pairs(&self.pool, &mut self.scratch, &mut pairs);
        let until = self.flush_until(head, &plan, extent);
        let split = pairs.partition_point(|(slot, _)| *slot < until);
        let (gone, kept) = pairs.split_at(split);
        let mut open = self.open(head);
        if self.limits.at_intervals {
            self.push_unwritten(at, &plan, extent, &pairs, &mut job.batch.rows);
        } else {
            self.push_raw(head, &plan, gone, &mut job.batch.rows);
        }
        self.push_coarse(head, &plan, until, &mut open, gone, job);
        if matches!(extent, Extent::Interval { open: true } | Extent::Last) {
            push_open(head, &plan, until, &open, kept, &mut job.batch.rows);
        }
        if extent == Extent::Last && plan.config.aggregation.needs_all_slots() {
            close_open(head, &plan, until, &pairs, &mut job.closes);
        }
        let sequence = self.late.known_until(at, self.sequence);
        let waiting = self.waiting_of(at, sequence);
        let mut state = State {
            number: head.number,
            sequence,
            base: until,
            newest: head.newest,
            resolution: plan.raw.resolution,
            open: open.clone(),
            waiting,
            held: 0,
            chain: Cow::Borrowed(&[]),
            octet: [f64::NAN; OCTET as usize],
        };
        state.hold(kept, &mut self.scratch);
        let bytes = state.encode();
        job.batch.states.push(StateRow { id: head.id, bytes });
        // The row knows nothing from the first pending late point on.
        let segment = self.late.segment(at).unwrap_or(segment);
        job.items.push(FlushItem { at, until, open, stored: gone.len() as u32, segment });
        if self.limits.at_intervals && extent != Extent::State {
            self.unwritten_from[at] = self.heads[at].newest + 1;
            self.heads[at].clear(flag::REWRITE);
        }
        let head = &mut self.heads[at];
        head.clear(flag::SINCE | flag::TOUCHED | flag::HOLDS_LATE);
        head.set(if matches!(extent, Extent::All { .. }) {
            flag::IN_FLIGHT | flag::ALL
        } else {
            flag::IN_FLIGHT
        });
    }

    /// The commit came through: frees the slots, unless one of them changed meanwhile.
    pub(crate) fn flush_done(&mut self, items: Vec<FlushItem>) {
        self.stats.flushes.add(1);
        self.stats.flushed_metrics.add(items.len() as u64);
        for (i, item) in items.iter().enumerate() {
            if i.is_multiple_of(BATCH) {
                self.warm(items[i..].iter().take(BATCH).map(|item| item.at));
            }
            let head = &mut self.heads[item.at];
            let touched = head.is(flag::TOUCHED);
            head.segment = if head.is(flag::SINCE | flag::STALE) { item.segment } else { 0 };
            head.clear(flag::IN_FLIGHT | flag::TOUCHED | flag::ALL | flag::SINCE);
            if touched {
                // The rows are written again with the change: they are whole, so nothing doubles.
                if !head.is(flag::DUE) {
                    head.set(flag::DUE);
                    self.due.push(item.at);
                }
                continue;
            }
            self.free(item);
            self.look_whether_due(item.at);
        }
    }

    /// Points of a metric that wait for their time; what the journal will tell again is not told twice.
    fn waiting_of(&self, at: u32, sequence: u64) -> Vec<(u32, f64)> {
        if !self.heads[at].is(flag::WAITS) {
            return Vec::new();
        }
        let waits = |w: &&Waiting| w.at == at && w.sequence <= sequence;
        self.waiting.iter().filter(waits).map(|w| (w.timestamp, w.value)).collect()
    }

    /// Brings what a flush reads of these metrics into the cache, with overlapping misses.
    fn warm(&self, metrics: impl Iterator<Item = u32>) {
        self.pool.warm::<BATCH>(metrics.map(|at| self.heads[at].chain()));
    }

    fn free(&mut self, item: &FlushItem) {
        let head = &mut self.heads[item.at];
        if item.until > head.base {
            let mut pairs = Pairs::new();
            head.pairs(&self.pool, &mut self.scratch, &mut pairs);
            let split = pairs.partition_point(|(slot, _)| *slot < item.until);
            head.base = item.until;
            head.newest = head.newest.max(item.until);
            head.refill(&mut self.pool, &mut self.scratch, &pairs[split..]);
            head.clear(flag::MERGE);
        }
        for (k, window) in item.open.iter().enumerate() {
            self.windows[head.windows + k as u32] = *window;
        }
        self.ledger.held -= u64::from(item.stored);
        self.ledger.stored += u64::from(item.stored);
    }

    pub(super) fn flush_until(&self, head: &Head, plan: &Plan, extent: Extent) -> u32 {
        let until = match extent {
            Extent::State => head.base,
            Extent::Interval { .. } | Extent::Last => head.newest.saturating_sub(ALLOWANCE),
            Extent::Blocks => {
                self.layout.block_start(&head.id, head.newest.saturating_sub(ALLOWANCE)).max(0) as u32
            }
            Extent::All { now } => {
                let past = u32::try_from(now).unwrap_or(0) / plan.raw.resolution;
                (head.newest + 1).max(past.saturating_sub(ALLOWANCE))
            }
        };
        until.max(head.base)
    }

    /// The raw blocks of these slots.
    fn push_raw(&self, head: &Head, plan: &Plan, pairs: &[(u32, f64)], rows: &mut WriteBatch) {
        let slots = self.layout.raw_slots;
        let mut values = vec![f64::NAN; slots as usize];
        let mut rest = pairs;
        while let Some(&(first, _)) = rest.first() {
            let start = self.layout.block_start(&head.id, first);
            let n = rest.partition_point(|(slot, _)| i64::from(*slot) < start + i64::from(slots));
            values.fill(f64::NAN);
            for (slot, value) in &rest[..n] {
                values[(i64::from(*slot) - start) as usize] = *value;
            }
            // A block that begins before the epoch is cut there.
            let skip = (-start).max(0) as usize;
            let whole = start >= i64::from(head.base) && !head.is(flag::MERGE) && skip == 0;
            let run = Run { whole, ..plan.run(head.id, 0, start.max(0) as u32) };
            rows.push(run, &values[skip..], None);
            rest = &rest[n..];
        }
    }

    /// The slots that the store was not handed yet, or all when one of the others has changed.
    fn push_unwritten(
        &self,
        at: u32,
        plan: &Plan,
        extent: Extent,
        pairs: &[(u32, f64)],
        rows: &mut WriteBatch,
    ) {
        if extent == Extent::State {
            return;
        }
        let head = &self.heads[at];
        let from = if head.is(flag::REWRITE) { 0 } else { self.unwritten_from[at] };
        let pairs = &pairs[pairs.partition_point(|(slot, _)| *slot < from)..];
        for run in pairs.chunk_by(|a, b| a.0 + 1 == b.0) {
            let values: Vec<f64> = run.iter().map(|(_, value)| *value).collect();
            rows.push(plan.run(head.id, 0, run[0].0), &values, None);
        }
    }

    fn push_coarse(
        &self,
        head: &Head,
        plan: &Arc<Plan>,
        until: u32,
        open: &mut [Window],
        gone: &[(u32, f64)],
        job: &mut FlushJob,
    ) {
        if plan.coarse() == 0 || until == head.base {
            return;
        }
        if plan.config.aggregation.needs_all_slots() {
            for (k, per) in plan.per.iter().enumerate() {
                let ended = downsample::windows_ended(*per, head.base, until, gone);
                job.closes.extend(ended.into_iter().map(|window| close(head, plan, k, window, gone)));
            }
            return;
        }
        let mut closed = Vec::new();
        downsample::fold(plan, head.base, until, open, gone, &mut closed);
        for run in closed.chunk_by(|a, b| a.stage == b.stage && a.window + 1 == b.window) {
            push_windows(head, plan, run, &mut job.batch.rows);
        }
    }
}

/// The windows that are not closed yet, as far as the head knows them.
fn push_open(
    head: &Head,
    plan: &Plan,
    until: u32,
    open: &[Window],
    kept: &[(u32, f64)],
    rows: &mut WriteBatch,
) {
    if plan.config.aggregation.needs_all_slots() {
        return;
    }
    let end = kept.last().map_or(until, |(slot, _)| slot + 1);
    let (mut still_open, mut windows) = (open.to_vec(), Vec::new());
    downsample::fold(plan, until, end, &mut still_open, kept, &mut windows);
    let last =
        |(k, value): (usize, &Window)| Closed { stage: k + 1, window: end / plan.per[k], value: *value };
    windows.extend(still_open.iter().enumerate().map(last).filter(|closed| closed.value.count > 0));
    for window in &windows {
        push_windows(head, plan, std::slice::from_ref(window), rows);
    }
}

/// Has the windows that are open from a slot on computed from the slots there are.
fn close_open(head: &Head, plan: &Arc<Plan>, from: u32, pairs: &[(u32, f64)], closes: &mut Vec<Close>) {
    for (k, per) in plan.per.iter().enumerate() {
        let open = from / per..=head.newest / per;
        closes.extend(open.map(|window| close(head, plan, k, window, pairs)));
    }
}

/// The order to compute a window of coarse stage `k` from the store's slots and these.
fn close(head: &Head, plan: &Arc<Plan>, k: usize, window: u32, pairs: &[(u32, f64)]) -> Close {
    let pairs = pairs.iter().copied().filter(|(slot, _)| slot / plan.per[k] == window).collect();
    Close { id: head.id, plan: Arc::clone(plan), stage: k + 1, window, pairs }
}

/// Consecutive windows of one stage as a run.
fn push_windows(head: &Head, plan: &Plan, windows: &[Closed], rows: &mut WriteBatch) {
    let Some(first) = windows.first() else { return };
    let values: Vec<f64> = windows.iter().map(|c| c.value.value).collect();
    let counts: Vec<u32> = windows.iter().map(|c| c.value.count).collect();
    rows.push(plan.run(head.id, first.stage, first.window), &values, Some(&counts));
}
