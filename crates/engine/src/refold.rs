//! A window folded anew from what the store has of finer stages, with late points laid over it.

use std::collections::BTreeMap;

use plumbago_model::Window;
use plumbago_store::{Column, ReadRequest};

use crate::downsample::Plan;
use crate::jobs::LateMetric;

/// What late points change, by stage and slot.
pub(crate) type Laid = [BTreeMap<u32, Window>];

/// A window to compute.
#[derive(Debug)]
pub(crate) struct Refold {
    pub(crate) stage: usize,
    pub(crate) window: u32,
    pub(crate) open: bool,
    /// Of the finest stage that still covers it whole.
    part: Part,
    /// Raw slots that are past their retention, and may be there all the same.
    raw: Option<Part>,
    /// The read of the window itself, when no finer stage covers it any more.
    itself: Option<usize>,
}

/// The slots `from..until` of a stage.
#[derive(Debug)]
struct Part {
    stage: usize,
    from: u32,
    until: u32,
    /// The read that holds them; `None` when there is none to read.
    read: Option<usize>,
}

impl Refold {
    /// Adds what it needs to the request. A window is young when one of the late points was young enough
    /// for the raw stage as it came. It may be older by now, if it has waited in the journal.
    pub(crate) fn new(
        metric: &LateMetric,
        stage: usize,
        window: u32,
        is_young: bool,
        request: &mut ReadRequest,
    ) -> Self {
        let start = i64::from(window) * i64::from(metric.plan.stage(stage).resolution);
        let covers = |s: &usize| metric.now - start <= metric.plan.stage(*s).duration() as i64;
        let covering = (0..stage).find(covers);
        let source = covering.unwrap_or(stage - 1);
        let mut part = |source| Part::new(metric, stage, window, source, request);
        let raw = (is_young && source > 0).then(|| part(0));
        let (part, open) = (part(source), is_open(metric, stage, window));
        let itself = (covering.is_none() && !open).then_some(request.ranges.len());
        if itself.is_some() {
            request.ranges.push(metric.plan.range(metric.id, stage, window, window + 1));
        }
        Self { stage, window, open, part, raw, itself }
    }

    /// Folds it; says from which stage.
    pub(crate) fn fold(&self, plan: &Plan, columns: &[Column], laid: &Laid) -> (usize, Window) {
        let source = self.part.stage;
        let folded = self.part.fold(plan, columns, laid);
        let known = self.itself.map_or(Window::default(), |at| window_at(&columns[at], 0));
        if known.count > 0 && self.part.has_expired(columns) {
            return (source, self.complete(known, plan, laid));
        }
        match &self.raw {
            Some(raw) if folded.count > 0 && self.is_of(raw, plan, columns, laid) => {
                (0, raw.fold(plan, columns, laid))
            }
            _ => (source, folded),
        }
    }

    /// The window as it is stored with the late points added, since what it was folded from has expired. One
    /// that replaced a slot counts beside it.
    fn complete(&self, known: Window, plan: &Plan, laid: &Laid) -> Window {
        let per = plan.per[self.stage - 1];
        let slots = laid[0].range(self.window * per..(self.window + 1) * per);
        let late = plan.config.aggregation.fold_all(slots.map(|(_, slot)| slot.value));
        plan.config.aggregation.merge_all([late, known].into_iter())
    }

    /// True when these raw slots give the very windows that the other stage has: all of them are still there,
    /// and no point older than the raw stage has replaced a window.
    fn is_of(&self, raw: &Part, plan: &Plan, columns: &[Column], laid: &Laid) -> bool {
        let per = plan.per[self.part.stage - 1];
        let mut slots = raw.slots(columns, laid).peekable();
        self.part.slots(columns, laid).all(|(at, window)| {
            let in_window = std::iter::from_fn(|| slots.next_if(|(slot, _)| slot / per == at));
            let known = in_window.filter(|(_, slot)| slot.count > 0);
            let folded = plan.config.aggregation.fold_all(known.map(|(_, slot)| slot.value));
            let is_same = folded.value.to_bits() == window.value.to_bits();
            folded.count == window.count && (is_same || folded.count == 0)
        })
    }
}

impl Part {
    /// Slots from the head's base on are not in the store.
    fn new(metric: &LateMetric, stage: usize, window: u32, source: usize, request: &mut ReadRequest) -> Self {
        let ratio = metric.plan.ratio(stage, source);
        let base = if source == 0 { metric.base } else { metric.base / metric.plan.per[source - 1] };
        let from = window * ratio;
        let is_open = is_open(metric, stage, window);
        let until = if is_open { base.clamp(from, from + ratio) } else { from + ratio };
        let read = (from < until).then_some(request.ranges.len());
        if read.is_some() {
            request.ranges.push(metric.plan.range(metric.id, source, from, until));
        }
        Self { stage: source, from, until, read }
    }

    /// True when the store has none of its slots.
    fn has_expired(&self, columns: &[Column]) -> bool {
        self.read.is_none_or(|at| columns[at].values.iter().all(|value| value.is_nan()))
    }

    fn fold(&self, plan: &Plan, columns: &[Column], laid: &Laid) -> Window {
        let method = plan.config.aggregation;
        let known = self.slots(columns, laid).map(|(_, window)| window).filter(|window| window.count > 0);
        if self.stage == 0 { method.fold_all(known.map(|w| w.value)) } else { method.merge_all(known) }
    }

    /// Its slots in time order; those without a count are unknown.
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

/// A place of a column; a raw slot counts as one.
pub(crate) fn window_at(column: &Column, place: usize) -> Window {
    match column.values.get(place) {
        Some(value) if !value.is_nan() => {
            Window { value: *value, count: column.counts.get(place).copied().unwrap_or(1) }
        }
        _ => Window::default(),
    }
}

fn is_open(metric: &LateMetric, stage: usize, window: u32) -> bool {
    window == metric.base / metric.plan.per[stage - 1]
}
