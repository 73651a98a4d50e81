//! Folds a window again, piece by piece, from the stored slots of a finer stage and the late points.

use std::collections::BTreeMap;

use plumbago_model::{Aggregation, Window};
use plumbago_store::{Column, RowCount};

use crate::late::fold::Fold;
use crate::shard::downsample::MetricLayout;
use crate::shard::jobs::LateMetric;

/// The slots that late points change, by stage.
pub(crate) type Laid = [BTreeMap<u32, Window>];

/// The slots `from..until` of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) stage: usize,
    pub(crate) from: u32,
    pub(crate) until: u32,
}

/// A window to fold again. Its parts are read in this order: the window itself, the source, the raw slots.
#[derive(Debug)]
pub(crate) struct Refold {
    pub(crate) stage: usize,
    pub(crate) window: u32,
    pub(crate) open: bool,
    /// Whether the window itself is read, because no finer stage covers it any more.
    reads_itself: bool,
    /// The slots of the window in the finest stage that still covers the whole window.
    source: Part,
    /// The raw slots, even if they are past their retention, because the store may still have them.
    raw: Option<Part>,
    /// The window as it is stored.
    known: Window,
    /// Whether the store has a slot of the source.
    has_source: bool,
    from_source: Fold,
    /// The fold of the source, once it has been read.
    folded: Window,
    from_raw: Option<RawFold>,
}

/// The fold of the raw slots. It is used only if the raw slots fold to exactly the windows of the source.
/// This shows that none of them has expired, and that no point older than the raw stage has replaced a
/// window.
#[derive(Debug)]
struct RawFold {
    whole: Fold,
    /// The windows of the source, in order.
    sources: Vec<Window>,
    /// The position of the source window that is being compared.
    at: usize,
    in_window: Fold,
    is_same: bool,
}

impl Refold {
    /// Prepares to fold a window. `is_young` says that the raw stage covered one of the late points when that
    /// point was accepted. If the point was in the journal for a long time, the raw stage may no longer cover
    /// it.
    pub(crate) fn new(metric: &LateMetric, stage: usize, window: u32, is_young: bool) -> Self {
        let start = i64::from(window) * i64::from(metric.layout.stage(stage).resolution);
        let covers = |s: &usize| metric.now - start <= metric.layout.stage(*s).duration() as i64;
        let covering = (0..stage).find(covers);
        let source = covering.unwrap_or(stage - 1);
        let method = metric.layout.config.aggregation;
        let open = window == metric.base / metric.layout.per[stage - 1];
        let has_raw = is_young && source > 0;
        Self {
            stage,
            window,
            open,
            reads_itself: covering.is_none() && !open,
            source: Part::new(metric, stage, window, source),
            raw: has_raw.then(|| Part::new(metric, stage, window, 0)),
            known: Window::default(),
            has_source: false,
            from_source: Fold::new(method, source),
            folded: Window::default(),
            from_raw: has_raw.then(|| RawFold::new(method)),
        }
    }

    /// The part that contains the window itself.
    pub(crate) fn itself(&self) -> Option<Part> {
        let part = Part { stage: self.stage, from: self.window, until: self.window + 1 };
        self.reads_itself.then_some(part)
    }

    pub(crate) fn source(&self) -> Part {
        self.source
    }

    pub(crate) fn raw(&self) -> Option<Part> {
        self.raw
    }

    /// The largest number of bytes that are kept between two pieces.
    pub(crate) fn keeps(&self, method: Aggregation) -> usize {
        let part = |part: &Part| Fold::bytes(method, part.stage, part.until - part.from);
        let sources = (self.source.until - self.source.from) as usize * size_of::<Window>();
        part(&self.source) + self.raw.as_ref().map_or(0, |raw| part(raw) + sources)
    }

    pub(crate) fn take_itself(&mut self, column: &Column) {
        self.known = window_at(column, 0);
    }

    /// Takes the next slots of the source, from slot `from` on.
    pub(crate) fn take_source(&mut self, method: Aggregation, from: u32, column: &Column, laid: &Laid) {
        self.has_source |= column.values.iter().any(|value| !value.is_nan());
        for (_, slot) in slots(self.source.stage, from, column, laid) {
            self.from_source.add(method, slot);
            if let Some(raw) = &mut self.from_raw {
                raw.sources.push(slot);
            }
        }
    }

    pub(crate) fn end_source(&mut self, method: Aggregation) {
        self.folded = self.from_source.end(method);
        let is_completed = self.known.count > 0 && !self.has_source;
        if self.folded.count == 0 || is_completed {
            self.from_raw = None;
        }
    }

    /// Whether the rest of the raw slots can change the result.
    pub(crate) fn wants_raw(&self) -> bool {
        self.from_raw.as_ref().is_some_and(|raw| raw.is_same)
    }

    /// Takes the next raw slots, from slot `from` on.
    pub(crate) fn take_raw(&mut self, layout: &MetricLayout, from: u32, column: &Column, laid: &Laid) {
        let Some(raw) = &mut self.from_raw else { return };
        let per = layout.ratio(self.source.stage, 0);
        for (at, slot) in slots(0, from, column, laid) {
            raw.add(layout.config.aggregation, (at / per - self.source.from) as usize, slot);
        }
    }

    /// Ends the fold after all parts have been read. Returns the stage that the window was folded from, and
    /// the result.
    pub(crate) fn end(&mut self, layout: &MetricLayout, laid: &Laid) -> (usize, Window) {
        let method = layout.config.aggregation;
        let source = self.source.stage;
        if self.known.count > 0 && !self.has_source {
            return (source, self.complete(layout, laid));
        }
        match self.from_raw.take().and_then(|raw| raw.end(method)) {
            Some(whole) => (0, whole),
            None => (source, self.folded),
        }
    }

    /// Adds the late points to the stored window, because the slots it was folded from have expired. A point
    /// that replaces an expired slot is counted in addition to that slot.
    fn complete(&self, layout: &MetricLayout, laid: &Laid) -> Window {
        let per = layout.per[self.stage - 1];
        let slots = laid[0].range(self.window * per..(self.window + 1) * per);
        let late = layout.config.aggregation.fold_all(slots.map(|(_, slot)| slot.value));
        layout.config.aggregation.merge_all([late, self.known].into_iter())
    }
}

impl RawFold {
    fn new(method: Aggregation) -> Self {
        let fold = || Fold::new(method, 0);
        Self { whole: fold(), sources: Vec::new(), at: 0, in_window: fold(), is_same: true }
    }

    /// Adds a raw slot of the source window at this position.
    fn add(&mut self, method: Aggregation, at: usize, slot: Window) {
        while self.at < at {
            self.compare(method);
        }
        self.in_window.add(method, slot);
        self.whole.add(method, slot);
    }

    fn compare(&mut self, method: Aggregation) {
        let folded = self.in_window.end(method);
        if let Some(window) = self.sources.get(self.at) {
            let is_equal = folded.count == 0 || folded.value.to_bits() == window.value.to_bits();
            self.is_same &= folded.count == window.count && is_equal;
        }
        self.at += 1;
    }

    /// The result of the whole fold, if it may be used.
    fn end(mut self, method: Aggregation) -> Option<Window> {
        while self.at < self.sources.len() {
            self.compare(method);
        }
        self.is_same.then(|| self.whole.end(method))
    }
}

impl Part {
    /// The slots of a window. For the open window the range ends at the base of the head, because later slots
    /// are not in the store.
    fn new(metric: &LateMetric, stage: usize, window: u32, source: usize) -> Self {
        let ratio = metric.layout.ratio(stage, source);
        let base = if source == 0 { metric.base } else { metric.base / metric.layout.per[source - 1] };
        let from = window * ratio;
        let is_open = window == metric.base / metric.layout.per[stage - 1];
        let until = if is_open { base.clamp(from, from + ratio) } else { from + ratio };
        Self { stage: source, from, until }
    }
}

/// The slots of a column that begins with slot `from`, where late points replace stored slots. Unknown slots
/// have count 0.
fn slots<'a>(
    stage: usize,
    from: u32,
    column: &'a Column,
    laid: &'a Laid,
) -> impl Iterator<Item = (u32, Window)> + 'a {
    let until = from + column.values.len() as u32;
    let mut changed = laid[stage].range(from..until).peekable();
    (from..until).enumerate().map(move |(place, slot)| {
        let late = changed.next_if(|(at, _)| **at == slot).map(|(_, window)| *window);
        (slot, late.unwrap_or_else(|| window_at(column, place)))
    })
}

/// The slot at a position of a column. A raw slot has count 1.
pub(crate) fn window_at(column: &Column, place: usize) -> Window {
    match column.values.get(place) {
        Some(value) if !value.is_nan() => {
            let count = column.counts.get(place).copied().unwrap_or(RowCount::ONE);
            Window { value: *value, count: count.of_window() }
        }
        _ => Window::default(),
    }
}
