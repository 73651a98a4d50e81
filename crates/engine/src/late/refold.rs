//! Folds a window again from the stored slots of a finer stage and the late points.

use std::collections::BTreeMap;

use plumbago_model::Window;
use plumbago_store::{Column, ReadRequest, RowCount};

use crate::shard::downsample::MetricLayout;
use crate::shard::jobs::LateMetric;

/// The slots that late points change, by stage.
pub(crate) type Laid = [BTreeMap<u32, Window>];

/// A window to fold again.
#[derive(Debug)]
pub(crate) struct Refold {
    pub(crate) stage: usize,
    pub(crate) window: u32,
    pub(crate) open: bool,
    /// The slots of the finest stage that still covers the whole window.
    part: Part,
    /// The raw slots, although past their retention: the store may still have them.
    raw: Option<Part>,
    /// The position in the request of the window itself, when no finer stage covers it any more.
    itself: Option<usize>,
}

/// The slots `from..until` of a stage.
#[derive(Debug)]
struct Part {
    stage: usize,
    from: u32,
    until: u32,
    /// Their position in the request; `None` when the range is empty.
    read: Option<usize>,
}

impl Refold {
    /// Adds the slots that the window needs to the request. `is_young` says that one of its late points was
    /// young enough for the raw stage when it was accepted. If it was in the journal for long, the raw stage
    /// may not cover it any more.
    pub(crate) fn new(
        metric: &LateMetric,
        stage: usize,
        window: u32,
        is_young: bool,
        request: &mut ReadRequest,
    ) -> Self {
        let start = i64::from(window) * i64::from(metric.layout.stage(stage).resolution);
        let covers = |s: &usize| metric.now - start <= metric.layout.stage(*s).duration() as i64;
        let covering = (0..stage).find(covers);
        let source = covering.unwrap_or(stage - 1);
        let mut part = |source| Part::new(metric, stage, window, source, request);
        let raw = (is_young && source > 0).then(|| part(0));
        let (part, open) = (part(source), is_open(metric, stage, window));
        let itself = (covering.is_none() && !open).then_some(request.ranges.len());
        if itself.is_some() {
            request.ranges.push(metric.layout.range(metric.id, stage, window, window + 1));
        }
        Self { stage, window, open, part, raw, itself }
    }

    /// Folds the window. Returns the stage that it was folded from, and the result.
    pub(crate) fn fold(&self, layout: &MetricLayout, columns: &[Column], laid: &Laid) -> (usize, Window) {
        let source = self.part.stage;
        let folded = self.part.fold(layout, columns, laid);
        let known = self.itself.map_or(Window::default(), |at| window_at(&columns[at], 0));
        if known.count > 0 && self.part.has_expired(columns) {
            return (source, self.complete(known, layout, laid));
        }
        match &self.raw {
            Some(raw) if folded.count > 0 && self.is_of(raw, layout, columns, laid) => {
                (0, raw.fold(layout, columns, laid))
            }
            _ => (source, folded),
        }
    }

    /// Adds the late points to the stored window, because the slots it was folded from have expired. A point that
    /// replaces an expired slot counts in addition to it.
    fn complete(&self, known: Window, layout: &MetricLayout, laid: &Laid) -> Window {
        let per = layout.per[self.stage - 1];
        let slots = laid[0].range(self.window * per..(self.window + 1) * per);
        let late = layout.config.aggregation.fold_all(slots.map(|(_, slot)| slot.value));
        layout.config.aggregation.merge_all([late, known].into_iter())
    }

    /// True when the raw slots fold to exactly the stored windows of the other stage. Then none of them has
    /// expired, and no point older than the raw stage has replaced a window.
    fn is_of(&self, raw: &Part, layout: &MetricLayout, columns: &[Column], laid: &Laid) -> bool {
        let per = layout.per[self.part.stage - 1];
        let mut slots = raw.slots(columns, laid).peekable();
        self.part.slots(columns, laid).all(|(at, window)| {
            let in_window = std::iter::from_fn(|| slots.next_if(|(slot, _)| slot / per == at));
            let known = in_window.filter(|(_, slot)| slot.count > 0);
            let folded = layout.config.aggregation.fold_all(known.map(|(_, slot)| slot.value));
            let is_same = folded.value.to_bits() == window.value.to_bits();
            folded.count == window.count && (is_same || folded.count == 0)
        })
    }
}

impl Part {
    /// For the open window the range ends at the base of the head: later slots are not in the store.
    fn new(metric: &LateMetric, stage: usize, window: u32, source: usize, request: &mut ReadRequest) -> Self {
        let ratio = metric.layout.ratio(stage, source);
        let base = if source == 0 { metric.base } else { metric.base / metric.layout.per[source - 1] };
        let from = window * ratio;
        let is_open = is_open(metric, stage, window);
        let until = if is_open { base.clamp(from, from + ratio) } else { from + ratio };
        let read = (from < until).then_some(request.ranges.len());
        if read.is_some() {
            request.ranges.push(metric.layout.range(metric.id, source, from, until));
        }
        Self { stage: source, from, until, read }
    }

    /// True when the store has none of the slots.
    fn has_expired(&self, columns: &[Column]) -> bool {
        self.read.is_none_or(|at| columns[at].values.iter().all(|value| value.is_nan()))
    }

    fn fold(&self, layout: &MetricLayout, columns: &[Column], laid: &Laid) -> Window {
        let method = layout.config.aggregation;
        let known = self.slots(columns, laid).map(|(_, window)| window).filter(|window| window.count > 0);
        if self.stage == 0 { method.fold_all(known.map(|w| w.value)) } else { method.merge_all(known) }
    }

    /// All slots in time order. Unknown ones have count 0.
    fn slots<'a>(
        &'a self,
        columns: &'a [Column],
        laid: &'a Laid,
    ) -> impl Iterator<Item = (u32, Window)> + 'a {
        let stored = self.read.map(|at| &columns[at]);
        let slot = move |at: u32| -> Window {
            if let Some(window) = laid[self.stage].get(&at) {
                return *window;
            }
            stored.map_or(Window::default(), |column| window_at(column, (at - self.from) as usize))
        };
        (self.from..self.until).map(move |at| (at, slot(at)))
    }
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

fn is_open(metric: &LateMetric, stage: usize, window: u32) -> bool {
    window == metric.base / metric.layout.per[stage - 1]
}
