//! The late points of one metric: the slots that they need from the store, and the resulting rows and
//! changes.

use std::collections::{BTreeMap, BTreeSet};

use plumbago_model::Window;
use plumbago_store::{Column, ReadRequest, RowCount, WriteBatch};

use crate::late::refold::{Part, Refold};
use crate::late::rounds::InPieces;
use crate::shard::jobs::{LateDone, LateMetric, LatePoint, OpenPart};

/// If no more slots than this lie between two needed slots, both are read in one range.
const BRIDGE: u32 = 16;
/// The largest number of rows of one metric in one batch. To subtract the rows of other writers, at most this
/// many rows of a metric are read at once.
pub(crate) const BATCH_ROWS: usize = 4000;

/// What a read part is needed for. The number is the index of the window to fold again.
#[derive(Debug, Clone, Copy)]
enum Use {
    /// The slots of the points.
    Targets,
    /// A window that no finer stage covers.
    Itself(usize),
    /// The slots that a window is folded from.
    Source(usize),
    /// The raw slots of a window, even if they are past their retention.
    Raw(usize),
}

/// The late points of a metric in a job, and the progress of the reads for them.
#[derive(Debug)]
pub(crate) struct Work {
    metric: LateMetric,
    /// All parts to read, in order. Finer stages come first, because coarser stages may be folded from them.
    parts: Vec<(Use, Part)>,
    /// The next part to read, and the next slot in it.
    at: usize,
    from: u32,
    has_begun: bool,
    /// The pieces that were requested last: part, first slot and end.
    asked: Vec<(usize, u32, u32)>,
    refolds: Vec<Refold>,
    /// The slots of the points, by stage and slot, with their values in the store; NaN means no value.
    touched: BTreeMap<(usize, u32), f64>,
    /// The changed slots, by stage.
    laid: Vec<BTreeMap<u32, Window>>,
    open: Vec<Option<OpenPart>>,
    keeps: usize,
}

impl Work {
    pub(crate) fn new(metric: LateMetric) -> Self {
        let coarse = metric.layout.coarse();
        let mut work = Self {
            parts: Vec::new(),
            at: 0,
            from: 0,
            has_begun: false,
            asked: Vec::new(),
            refolds: Vec::new(),
            touched: BTreeMap::new(),
            laid: vec![BTreeMap::new(); coarse + 1],
            open: vec![None; coarse],
            keeps: 0,
            metric,
        };
        work.lay_points();
        work.plan();
        work
    }

    /// The number of points.
    pub(crate) fn points(&self) -> usize {
        self.metric.points.len()
    }

    pub(crate) fn metric(&self) -> &LateMetric {
        &self.metric
    }

    fn lay_points(&mut self) {
        let method = self.metric.layout.config.aggregation;
        for point in &self.metric.points {
            let stage = usize::from(point.stage);
            self.touched.insert((stage, point.slot), f64::NAN);
            if stage == 0 {
                self.laid[0].insert(point.slot, Window { value: point.value, count: 1 });
                continue;
            }
            let per = self.metric.layout.per[stage - 1];
            let window = method.window_of(point.value, per);
            self.laid[stage].insert(point.slot, window);
            if point.slot == self.metric.base / per {
                self.open[stage - 1] = Some(OpenPart::Folded(0, window));
            }
        }
    }

    /// Lists the parts that must be read.
    fn plan(&mut self) {
        let layout = std::sync::Arc::clone(&self.metric.layout);
        for stage in 0..=layout.coarse() {
            let slots = self.touched.range((stage, 0)..=(stage, u32::MAX)).map(|((_, slot), _)| *slot);
            let ranges = bridged(slots);
            self.parts
                .extend(ranges.into_iter().map(|(from, until)| (Use::Targets, Part { stage, from, until })));
        }
        for stage in 1..=layout.coarse() {
            let finer = self.touched.range((0, 0)..(stage, 0)).map(|(key, _)| *key);
            let windows: BTreeSet<u32> =
                finer.map(|(finer, slot)| slot / layout.ratio(stage, finer)).collect();
            let windows = windows.into_iter().filter(|window| !is_replaced(&self.metric, stage, *window));
            for window in windows {
                let per = layout.per[stage - 1];
                let raw = (0, window * per)..(0, window.saturating_add(1).saturating_mul(per));
                let is_young = self.touched.range(raw).next().is_some();
                self.refolds.push(Refold::new(&self.metric, stage, window, is_young));
            }
        }
        for (i, refold) in self.refolds.iter().enumerate() {
            self.keeps = self.keeps.max(refold.keeps(layout.config.aggregation));
            self.parts.extend(refold.itself().map(|part| (Use::Itself(i), part)));
            self.parts.push((Use::Source(i), refold.source()));
            self.parts.extend(refold.raw().map(|part| (Use::Raw(i), part)));
        }
    }

    fn take_piece(&mut self, of: Use, part: Part, from: u32, column: &Column) {
        let method = self.metric.layout.config.aggregation;
        match of {
            Use::Targets => {
                let until = from + column.values.len() as u32;
                for ((_, slot), old) in self.touched.range_mut((part.stage, from)..(part.stage, until)) {
                    *old = column.values[(slot - from) as usize];
                }
            }
            Use::Itself(i) => self.refolds[i].take_itself(column),
            Use::Source(i) => self.refolds[i].take_source(method, from, column, &self.laid),
            Use::Raw(i) => self.refolds[i].take_raw(&self.metric.layout, from, column, &self.laid),
        }
    }

    fn end_part(&mut self, of: Use) {
        let method = self.metric.layout.config.aggregation;
        match of {
            Use::Targets | Use::Itself(_) => {}
            Use::Source(i) => {
                self.refolds[i].end_source(method);
                if self.refolds[i].raw().is_none() {
                    self.end_refold(i);
                }
            }
            Use::Raw(i) => self.end_refold(i),
        }
    }

    fn end_refold(&mut self, i: usize) {
        let refold = &mut self.refolds[i];
        let (source, window) = refold.end(&self.metric.layout, &self.laid);
        if refold.open {
            self.open[refold.stage - 1] = Some(OpenPart::Folded(source, window));
        } else if window.count > 0 {
            self.laid[refold.stage].insert(refold.window, window);
        }
    }

    /// Skips raw slots that cannot change the result.
    fn skip(&mut self) {
        while let Some((of @ Use::Raw(i), _)) = self.parts.get(self.at).copied()
            && !self.refolds[i].wants_raw()
        {
            self.end_part(of);
            (self.at, self.from) = (self.at + 1, 0);
        }
    }

    /// Adds the rows to the batches: the first 4,000 rows of the metric to the first batch, and so on. The
    /// open windows are left out, because the head keeps them.
    pub(crate) fn push_rows(&self, batches: &mut Vec<WriteBatch>) {
        let metric = &self.metric;
        let mut pushed = 0;
        for (stage, slots) in self.laid.iter().enumerate() {
            let open = if stage == 0 { u32::MAX } else { metric.base / metric.layout.per[stage - 1] };
            let slots: Vec<(u32, Window)> =
                slots.iter().map(|(s, w)| (*s, *w)).filter(|(s, _)| *s != open).collect();
            for run in slots.chunk_by(|a, b| a.0 + 1 == b.0) {
                let mut rest = run;
                while !rest.is_empty() {
                    let (first, left) = rest.split_at(rest.len().min(BATCH_ROWS - pushed % BATCH_ROWS));
                    let at = pushed / BATCH_ROWS;
                    if at == batches.len() {
                        batches.push(WriteBatch::default());
                    }
                    push_run(metric, stage, first, &mut batches[at]);
                    pushed += first.len();
                    rest = left;
                }
            }
        }
    }

    /// The changes that storing these points makes to the metric.
    pub(crate) fn done(&self) -> LateDone {
        LateDone {
            at: self.metric.at,
            points: self.metric.points.len() as u32,
            stored: self.touched.values().filter(|old| old.is_nan()).count() as u32,
            open: self.open.clone(),
        }
    }

    /// The late points in the open window of coarse stage `k` + 1, each with the value that it replaces.
    pub(crate) fn changes(&self, k: usize) -> Vec<(f64, Option<f64>)> {
        let per = self.metric.layout.per[k];
        let is_of_window =
            |point: &&LatePoint| point.stage == 0 && point.slot / per == self.metric.base / per;
        let mut known: BTreeMap<u32, f64> = BTreeMap::new();
        let mut change = |point: &LatePoint| {
            let stored = || self.touched.get(&(0, point.slot)).copied().filter(|old| !old.is_nan());
            let old = known.insert(point.slot, point.value).or_else(stored);
            (point.value, old)
        };
        self.metric.points.iter().filter(is_of_window).map(&mut change).collect()
    }
}

impl InPieces for Work {
    fn keeps(&self) -> usize {
        self.keeps
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn is_complete(&self) -> bool {
        self.at == self.parts.len()
    }

    fn ask(&mut self, slots_max: u32, request: &mut ReadRequest) -> usize {
        self.has_begun = true;
        self.asked.clear();
        let (mut at, mut from, mut left) = (self.at, self.from, slots_max);
        while left > 0 && at < self.parts.len() {
            let part = self.parts[at].1;
            let first = from.max(part.from);
            let until = part.until.min(first.saturating_add(left));
            if first < until {
                request.ranges.push(self.metric.layout.range(self.metric.id, part.stage, first, until));
            }
            self.asked.push((at, first, until));
            left -= until - first;
            (at, from) = if until == part.until { (at + 1, 0) } else { (at, until) };
        }
        (slots_max - left) as usize
    }

    fn take(&mut self, columns: &mut dyn Iterator<Item = Column>) {
        for (at, first, until) in std::mem::take(&mut self.asked) {
            let column = if first < until { columns.next().unwrap_or_default() } else { Column::default() };
            if at < self.at {
                // A piece that is no longer needed.
                continue;
            }
            let (of, part) = self.parts[at];
            self.take_piece(of, part, first, &column);
            self.from = until;
            if until == part.until {
                self.end_part(of);
                (self.at, self.from) = (at + 1, 0);
            }
            self.skip();
        }
    }
}

fn push_run(metric: &LateMetric, stage: usize, run: &[(u32, Window)], rows: &mut WriteBatch) {
    let values: Vec<f64> = run.iter().map(|(_, w)| w.value).collect();
    let counts: Vec<RowCount> = run.iter().map(|(_, w)| w.count.into()).collect();
    rows.push(metric.layout.run(metric.id, stage, run[0].0), &values, (stage > 0).then_some(&counts));
}

/// Whether the last point of the window is older than stage 0 and therefore replaces the window.
fn is_replaced(metric: &LateMetric, stage: usize, window: u32) -> bool {
    if metric.aged_until == 0 {
        return false;
    }
    let lands = |point: &LatePoint| usize::from(point.stage) == stage && point.slot == window;
    let finer = |point: &LatePoint| {
        let finer = usize::from(point.stage);
        finer < stage && point.slot / metric.layout.ratio(stage, finer) == window
    };
    let last = metric.points.iter().rposition(lands);
    last.is_some_and(|last| !metric.points[last + 1..].iter().any(finer))
}

/// Ranges that contain all these slots, which are in ascending order, without long gaps.
fn bridged(slots: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some((_, end)) if slot - *end <= BRIDGE => *end = slot + 1,
            _ => ranges.push((slot, slot + 1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests;
