//! Decides which slots are deleted with a time range, and which windows have to be folded again. No I/O.
//!
//! Slots and windows that lie entirely within the range are deleted. A window at a border of the range loses
//! some of its slots, so it is folded again from the remaining slots of the finest stage that still covers
//! it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use plumbago_model::Window;
use plumbago_store::{SlotRange, WriteBatch};

use crate::late::fold::Fold;
use crate::shard::downsample::MetricLayout;
use crate::shard::import::ImportHead;
use crate::shard::ranges::whole_slots;
use crate::slots::Stored;

/// A metric, and the part of it that is deleted.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) head: &'a ImportHead,
    /// The slots of the raw stage to delete.
    pub(crate) slots: Range<u32>,
    /// Seconds since the epoch.
    pub(crate) now: i64,
}

/// A window that loses some of its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) stage: usize,
    pub(crate) window: u32,
    state: EdgeState,
    /// The stage that it is folded from and the slots to read of that stage; `None` if no finer stage covers
    /// it any more.
    source: Option<(usize, Range<u32>)>,
}

/// Where the window of an edge is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EdgeState {
    /// In the store.
    Closed,
    /// In the head, which has folded some slots into it. With flushes at intervals, the store may have a row too.
    Open,
    /// Nowhere, because no slot has been folded into it yet. With flushes at intervals, the store may still
    /// have a row.
    Ahead,
}

/// The changes that deleting the range makes.
#[derive(Debug, Default)]
pub(crate) struct RangePlan {
    /// The new open windows.
    pub(crate) open: Vec<Window>,
    /// The windows at the borders, folded again.
    pub(crate) rows: WriteBatch,
    /// Slots and windows that are deleted completely.
    pub(crate) gone: Vec<SlotRange>,
    /// Windows that are rewritten, now or when they close. The rows of any writer for these windows in the
    /// store are stale.
    pub(crate) stale: Vec<SlotRange>,
    pub(crate) folded: u64,
    pub(crate) kept: u64,
}

impl Subject<'_> {
    fn layout(&self) -> &MetricLayout {
        &self.head.layout
    }

    /// The number of raw slots in a slot of a stage.
    fn per(&self, stage: usize) -> u32 {
        if stage == 0 { 1 } else { self.layout().per[stage - 1] }
    }

    /// The slots of a stage that lie entirely within the range.
    pub(crate) fn whole(&self, stage: usize) -> Range<u32> {
        whole_slots(self.layout(), stage, &self.slots)
    }

    /// The windows at the borders of the range, finer stages first.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        for stage in 1..=self.layout().coarse() {
            let per = self.per(stage);
            let mut windows: Vec<u32> = [self.slots.start, self.slots.end]
                .into_iter()
                .filter(|slot| !slot.is_multiple_of(per))
                .map(|slot| slot / per)
                .collect();
            windows.dedup();
            edges.extend(windows.into_iter().map(|window| self.edge(stage, window)));
        }
        edges
    }

    fn edge(&self, stage: usize, window: u32) -> Edge {
        let (per, base) = (self.per(stage), self.head.base);
        // A head without a base has no open windows.
        let state = match window.cmp(&(base / per)) {
            Ordering::Less => EdgeState::Closed,
            _ if base == 0 => EdgeState::Closed,
            Ordering::Equal => EdgeState::Open,
            Ordering::Greater => EdgeState::Ahead,
        };
        let start = i64::from(window) * i64::from(self.layout().stage(stage).resolution);
        let covers = |s: &usize| self.now - start <= self.layout().stage(*s).duration() as i64;
        let source = (0..stage).find(covers).map(|source| {
            let ratio = self.layout().ratio(stage, source);
            let from = window * ratio;
            let until = match state {
                EdgeState::Closed => from.saturating_add(ratio),
                EdgeState::Open => base / self.per(source),
                EdgeState::Ahead => from,
            };
            (source, from..until)
        });
        Edge { stage, window, state, source }
    }

    /// The ranges to read for these windows: each window itself, then the slots it is folded from.
    pub(crate) fn reads(&self, edges: &[Edge]) -> Vec<SlotRange> {
        let range =
            |stage, slots: Range<u32>| self.layout().range(self.head.id, stage, slots.start, slots.end);
        let of = |edge: &Edge| {
            let itself = range(edge.stage, edge.window..edge.window + 1);
            let (stage, slots) = edge.source.clone().unwrap_or((0, 0..0));
            [itself, range(stage, slots)]
        };
        edges.iter().flat_map(of).collect()
    }

    /// Plans the deletion. `read` are the answers to [`Subject::reads`], of all writers.
    pub(crate) fn plan(&self, edges: &[Edge], read: &[Stored]) -> RangePlan {
        let coarse = self.layout().coarse();
        let mut plan = RangePlan { open: self.head.open.clone(), ..RangePlan::default() };
        for (stage, open) in (1..=coarse).zip(&mut plan.open) {
            let (per, base) = (self.per(stage), self.head.base);
            let first = base / per * per;
            if self.slots.start <= first && base <= self.slots.end {
                *open = Window::default();
            }
        }
        let mut laid: Vec<BTreeMap<u32, Window>> = vec![BTreeMap::new(); coarse + 1];
        for (edge, read) in edges.iter().zip(read.chunks_exact(2)) {
            self.fold_edge(edge, read, &mut laid, &mut plan);
        }
        for stage in 0..=coarse {
            self.push_gone(stage, self.whole(stage), &mut plan.gone);
        }
        plan
    }

    fn fold_edge(
        &self,
        edge: &Edge,
        read: &[Stored],
        laid: &mut [BTreeMap<u32, Window>],
        plan: &mut RangePlan,
    ) {
        let method = self.layout().config.aggregation;
        let itself = edge.window..edge.window + 1;
        let is_open = edge.state == EdgeState::Open;
        if edge.state != EdgeState::Closed {
            self.push_gone(edge.stage, itself.clone(), &mut plan.stale);
        }
        // A percentile is computed from all slots of its window when the window closes.
        if edge.state == EdgeState::Ahead || is_open && method.needs_all_slots() {
            return;
        }
        let known = if is_open { plan.open[edge.stage - 1] } else { read[0].get(edge.window) };
        let folded = self.fold_source(edge, &read[1], laid, plan);
        let Some(folded) = folded else {
            plan.kept += u64::from(known.count > 0);
            return;
        };
        if folded.count == known.count && folded.value.to_bits() == known.value.to_bits() {
            return;
        }
        plan.folded += 1;
        if is_open {
            plan.open[edge.stage - 1] = folded;
            return;
        }
        laid[edge.stage].insert(edge.window, folded);
        if folded.count == 0 {
            return self.push_gone(edge.stage, itself, &mut plan.gone);
        }
        let run = self.layout().run(self.head.id, edge.stage, edge.window);
        plan.rows.push(run, &[folded.value], Some(&[folded.count.into()]));
        self.push_gone(edge.stage, itself, &mut plan.stale);
    }

    /// Folds a window from its remaining slots; `None` if these have expired.
    fn fold_source(
        &self,
        edge: &Edge,
        read: &Stored,
        laid: &[BTreeMap<u32, Window>],
        plan: &RangePlan,
    ) -> Option<Window> {
        let method = self.layout().config.aggregation;
        let (source, slots) = edge.source.clone()?;
        let gone = self.whole(source);
        let mut fold = Fold::new(method, source);
        let mut has_source = false;
        for slot in slots {
            let stored = read.get(slot);
            has_source |= stored.count > 0;
            if !gone.contains(&slot) {
                fold.add(method, laid[source].get(&slot).copied().unwrap_or(stored));
            }
        }
        let mut folded = fold.end(method);
        if edge.state == EdgeState::Open && source > 0 {
            has_source |= self.head.open[source - 1].count > 0;
            method.fold_window(&mut folded, plan.open[source - 1]);
        }
        has_source.then_some(folded)
    }

    fn push_gone(&self, stage: usize, slots: Range<u32>, to: &mut Vec<SlotRange>) {
        if !slots.is_empty() {
            to.push(self.layout().range(self.head.id, stage, slots.start, slots.end));
        }
    }
}
