//! Builds flushes and handles their acknowledgement. Slots leave a head only after the commit.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use plumbago_model::Window;
use plumbago_store::{RowCount, Run, StateRow, WriteBatch};

use super::{ALLOWANCE, BATCH, Shard};
use crate::shard::downsample::{self, Closed, MetricLayout};
use crate::shard::head::{Head, OCTET, Pairs};
use crate::shard::head_state::{FlushEvent, LateEvent, mark};
use crate::shard::jobs::{Close, FlushItem, FlushJob, Flushes};
use crate::shard::state_row::State;

/// Which slots and windows of a metric a flush contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Whole blocks older than the allowance.
    Blocks,
    /// Every slot that was not flushed yet, and the windows older than the allowance. With `open`, the open
    /// windows as well. Slots stay in the head until they are older than the allowance.
    Interval { open: bool },
    /// Like `Interval` with open windows, including those of percentiles. Used at a clean stop, after which
    /// another writer may continue with these metrics.
    Last,
    /// Every slot, and every window that ended by `now` (seconds since the epoch).
    All { now: i64 },
    /// No slots, only the state row.
    State,
}

impl Shard {
    /// Adds a metric to the list of due metrics when one of its blocks is complete.
    #[inline]
    pub(crate) fn check_due(&mut self, at: u32) {
        let head = &mut self.heads[at];
        if !self.limits.at_intervals
            && !head.is(mark::DUE)
            && self.blocks.block_start(&head.id, head.newest.saturating_sub(ALLOWANCE)) > i64::from(head.base)
        {
            head.set(mark::DUE);
            self.due.push(at);
        }
    }

    /// Builds a flush of at most `metrics_max` due metrics. Metrics that cannot be flushed now stay due.
    pub(crate) fn take_due(&mut self, metrics_max: usize, segment: u32) -> Option<Flushes> {
        let mut flushes = Flushes::default();
        let metrics = metrics_max.min(self.flushing.len());
        let job = &mut flushes.plain;
        job.items.reserve(metrics);
        job.batch.states.reserve(metrics);
        job.batch.rows.reserve(2 * metrics, metrics * (self.blocks.raw_slots as usize + 2));
        while flushes.len() < metrics_max {
            if flushes.len().is_multiple_of(BATCH) {
                self.warm(self.flushing.iter().take(BATCH).copied());
            }
            let Some(at) = self.flushing.pop_front() else { break };
            if self.may_flush(at) {
                self.heads[at].clear(mark::DUE);
                self.build(at, self.usual_extent(), segment, &mut flushes);
            } else {
                self.defer_late(at);
                self.due.push(at);
            }
        }
        (flushes.len() > 0).then_some(flushes)
    }

    /// Begins a round of flushes of all due metrics, sorted by id. Writing in key order is several times
    /// cheaper for the store.
    pub(crate) fn begin_due(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        let heads = &self.heads;
        due.sort_by_cached_key(|at| heads[*at].id);
        self.flushing = due.into();
    }

    /// The extent of an ordinary flush.
    pub(crate) fn usual_extent(&self) -> Extent {
        if self.limits.at_intervals {
            Extent::Interval { open: self.limits.emit_open }
        } else {
            Extent::Blocks
        }
    }

    /// The extent of the flush at a clean stop.
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

    /// Metrics with held slots or with windows that a clean stop writes, in id order.
    pub(crate) fn held_in_id_order(&self) -> VecDeque<u32> {
        let is_open = |head: &Head| {
            let method = self.layouts[usize::from(head.config)].config.aggregation;
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

    /// Whether a flush of this metric may be built. Late points in flight prevent it; pending ones are stored
    /// after it.
    pub(crate) fn may_flush(&self, at: u32) -> bool {
        let head = &self.heads[at];
        let is_late_in_flight = || head.state.has_late() && self.late.is_in_flight(at);
        let is_free = head.state.is_created() && !head.state.is_flushing() && !is_late_in_flight();
        is_free && !self.is_awaited(at) && self.may_close(at)
    }

    /// Makes further late points of a metric wait until the metric is flushed. Without this, a metric that
    /// gets late points all the time would never be flushed.
    pub(crate) fn defer_late(&mut self, at: u32) {
        if self.late.is_in_flight(at) {
            self.heads[at].state.on_late(LateEvent::Defer);
        }
    }

    /// Whether the windows of the metric can be closed. They cannot while they need slots from the store and
    /// no job that reads can be queued.
    pub(super) fn may_close(&self, at: u32) -> bool {
        let config = || usize::from(self.heads[at].config);
        self.may_read || !self.layouts[config()].config.aggregation.needs_all_slots()
    }

    /// Adds the rows and the state row of one metric to a batch.
    pub(crate) fn build(&mut self, at: u32, extent: Extent, segment: u32, flushes: &mut Flushes) {
        let layout = Arc::clone(&self.layouts[usize::from(self.heads[at].config)]);
        let reads = layout.config.aggregation.needs_all_slots();
        let job = if reads { &mut flushes.reading } else { &mut flushes.plain };
        let head = &self.heads[at];
        let mut pairs = Pairs::new();
        head.pairs(&self.pool, &mut self.scratch, &mut pairs);
        let until = self.flush_until(head, &layout, extent);
        let split = pairs.partition_point(|(slot, _)| *slot < until);
        let (gone, kept) = pairs.split_at(split);
        let mut open = self.open(head);
        if self.limits.at_intervals {
            self.push_unwritten(at, &layout, extent, &pairs, &mut job.batch.rows);
        } else {
            self.push_raw(head, &layout, gone, &mut job.batch.rows);
        }
        self.push_coarse(head, &layout, until, &mut open, gone, job);
        if matches!(extent, Extent::Interval { open: true } | Extent::Last) {
            push_open(head, &layout, until, &open, kept, &mut job.batch.rows);
        }
        if extent == Extent::Last && layout.config.aggregation.needs_all_slots() {
            close_open(head, &layout, until, &pairs, &mut job.closes);
        }
        let sequence = self.late.known_until(at, self.sequence);
        let future = self.future_of(at, sequence);
        let mut state = State {
            number: head.number,
            sequence,
            base: until,
            newest: head.newest,
            resolution: layout.raw.resolution,
            open: open.clone(),
            resolutions: self.resolutions(&layout),
            future,
            held: 0,
            chain: Cow::Borrowed(&[]),
            octet: [f64::NAN; OCTET as usize],
        };
        state.hold(kept, &mut self.scratch);
        let bytes = state.encode();
        job.batch.states.push(StateRow { id: head.id, bytes });
        // The state row covers nothing from the first pending late point on.
        let segment = self.late.segment(at).unwrap_or(segment);
        job.items.push(FlushItem { at, until, open, stored: gone.len() as u32, segment });
        if self.limits.at_intervals && extent != Extent::State {
            self.unwritten_from[at] = self.heads[at].newest + 1;
            self.heads[at].clear(mark::REWRITE);
        }
        let head = &mut self.heads[at];
        head.state.on_late(LateEvent::Build);
        let is_whole = matches!(extent, Extent::All { .. });
        head.state.on_flush(if is_whole { FlushEvent::BuildWhole } else { FlushEvent::BuildPart });
    }

    /// The resolutions of the coarse stages, for a state row. Rows of a store that daemons share always have
    /// them, because another daemon may change the settings of the metric while this daemon is not running.
    pub(super) fn resolutions(&self, layout: &MetricLayout) -> Vec<u32> {
        if self.limits.at_intervals { layout.coarse_resolutions.clone() } else { Vec::new() }
    }

    /// Handles a committed flush: frees its slots, unless one of them has changed since.
    pub(crate) fn flush_done(&mut self, items: Vec<FlushItem>) {
        self.stats.flushes.add(1);
        self.stats.flushed_metrics.add(items.len() as u64);
        for (i, item) in items.iter().enumerate() {
            if i.is_multiple_of(BATCH) {
                self.warm(items[i..].iter().take(BATCH).map(|item| item.at));
            }
            let head = &mut self.heads[item.at];
            let flush = head.state.flush();
            let is_covered = !flush.has_grown() && !head.state.has_late();
            head.segment = if is_covered { 0 } else { item.segment };
            head.state.on_flush(FlushEvent::Commit);
            if flush.has_changed() {
                // The rows are written again with the changed slots. Each row is replaced completely, so
                // nothing counts twice.
                if !head.is(mark::DUE) {
                    head.set(mark::DUE);
                    self.due.push(item.at);
                }
                continue;
            }
            self.free(item);
            self.check_due(item.at);
        }
    }

    /// Loads the chains of these heads into the cache, so that the misses overlap.
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
            head.clear(mark::MERGE);
        }
        for (k, window) in item.open.iter().enumerate() {
            self.windows[head.windows + k as u32] = *window;
        }
        self.ledger.held -= u64::from(item.stored);
        self.ledger.stored += u64::from(item.stored);
    }

    pub(super) fn flush_until(&self, head: &Head, layout: &MetricLayout, extent: Extent) -> u32 {
        let until = match extent {
            Extent::State => head.base,
            Extent::Interval { .. } | Extent::Last => head.newest.saturating_sub(ALLOWANCE),
            Extent::Blocks => {
                self.blocks.block_start(&head.id, head.newest.saturating_sub(ALLOWANCE)).max(0) as u32
            }
            Extent::All { now } => {
                let past = u32::try_from(now).unwrap_or(0) / layout.raw.resolution;
                (head.newest + 1).max(past.saturating_sub(ALLOWANCE))
            }
        };
        until.max(head.base)
    }

    /// Adds the raw blocks of these slots.
    fn push_raw(&self, head: &Head, layout: &MetricLayout, pairs: &[(u32, f64)], rows: &mut WriteBatch) {
        let slots = self.blocks.raw_slots;
        let mut values = vec![f64::NAN; slots as usize];
        let mut rest = pairs;
        while let Some(&(first, _)) = rest.first() {
            let start = self.blocks.block_start(&head.id, first);
            let n = rest.partition_point(|(slot, _)| i64::from(*slot) < start + i64::from(slots));
            values.fill(f64::NAN);
            for (slot, value) in &rest[..n] {
                values[(i64::from(*slot) - start) as usize] = *value;
            }
            // A block cannot begin before the epoch.
            let skip = (-start).max(0) as usize;
            let whole = start >= i64::from(head.base) && !head.is(mark::MERGE) && skip == 0;
            let run = Run { whole, ..layout.run(head.id, 0, start.max(0) as u32) };
            rows.push(run, &values[skip..], None);
            rest = &rest[n..];
        }
    }

    /// Adds the slots that were never flushed. If a slot has changed after it was flushed, adds all held
    /// slots instead.
    fn push_unwritten(
        &self,
        at: u32,
        layout: &MetricLayout,
        extent: Extent,
        pairs: &[(u32, f64)],
        rows: &mut WriteBatch,
    ) {
        if extent == Extent::State {
            return;
        }
        let head = &self.heads[at];
        let from = if head.is(mark::REWRITE) { 0 } else { self.unwritten_from[at] };
        let pairs = &pairs[pairs.partition_point(|(slot, _)| *slot < from)..];
        for run in pairs.chunk_by(|a, b| a.0 + 1 == b.0) {
            let values: Vec<f64> = run.iter().map(|(_, value)| *value).collect();
            rows.push(layout.run(head.id, 0, run[0].0), &values, None);
        }
    }

    fn push_coarse(
        &self,
        head: &Head,
        layout: &Arc<MetricLayout>,
        until: u32,
        open: &mut [Window],
        gone: &[(u32, f64)],
        job: &mut FlushJob,
    ) {
        if layout.coarse() == 0 || until == head.base {
            return;
        }
        if layout.config.aggregation.needs_all_slots() {
            for (k, per) in layout.per.iter().enumerate() {
                let ended = downsample::windows_ended(*per, head.base, until, gone);
                job.closes.extend(ended.into_iter().map(|window| close(head, layout, k, window, gone)));
            }
            return;
        }
        let mut closed = Vec::new();
        downsample::fold(layout, head.base, until, open, gone, &mut closed);
        for run in closed.chunk_by(|a, b| a.stage == b.stage && a.window + 1 == b.window) {
            push_windows(head, layout, run, &mut job.batch.rows);
        }
    }
}

/// Adds the open windows, including their slots in the head.
fn push_open(
    head: &Head,
    layout: &MetricLayout,
    until: u32,
    open: &[Window],
    kept: &[(u32, f64)],
    rows: &mut WriteBatch,
) {
    if layout.config.aggregation.needs_all_slots() {
        return;
    }
    let end = kept.last().map_or(until, |(slot, _)| slot + 1);
    let (mut still_open, mut windows) = (open.to_vec(), Vec::new());
    downsample::fold(layout, until, end, &mut still_open, kept, &mut windows);
    let last =
        |(k, value): (usize, &Window)| Closed { stage: k + 1, window: end / layout.per[k], value: *value };
    windows.extend(still_open.iter().enumerate().map(last).filter(|closed| closed.value.count > 0));
    for window in &windows {
        push_windows(head, layout, std::slice::from_ref(window), rows);
    }
}

/// Adds the tasks to compute the windows that are open from slot `from` on.
fn close_open(
    head: &Head,
    layout: &Arc<MetricLayout>,
    from: u32,
    pairs: &[(u32, f64)],
    closes: &mut Vec<Close>,
) {
    for (k, per) in layout.per.iter().enumerate() {
        let open = from / per..=head.newest / per;
        closes.extend(open.map(|window| close(head, layout, k, window, pairs)));
    }
}

/// The task of computing a window of coarse stage `k` + 1 from these slots and those in the store.
fn close(head: &Head, layout: &Arc<MetricLayout>, k: usize, window: u32, pairs: &[(u32, f64)]) -> Close {
    let pairs = pairs.iter().copied().filter(|(slot, _)| slot / layout.per[k] == window).collect();
    Close { id: head.id, layout: Arc::clone(layout), stage: k + 1, window, pairs }
}

/// Adds consecutive windows of one stage as one run.
fn push_windows(head: &Head, layout: &MetricLayout, windows: &[Closed], rows: &mut WriteBatch) {
    let Some(first) = windows.first() else { return };
    let values: Vec<f64> = windows.iter().map(|c| c.value.value).collect();
    let counts: Vec<RowCount> = windows.iter().map(|c| c.value.count.into()).collect();
    rows.push(layout.run(head.id, first.stage, first.window), &values, Some(&counts));
}
