//! Computes from a history which rows are stored, and the new open windows and slots of the head. No I/O.
//!
//! A stored slot is kept. If the store and the history both have points of a window, the window is folded
//! again from the raw slots of both, provided that the raw stage covers it; otherwise the window with more
//! slots is kept. So no slot counts twice (`docs/decisions/whisper-import.md`).

use std::collections::BTreeMap;

use plumbago_model::{Aggregation, Window};
use plumbago_store::{HistoryReport, WriteBatch};

use super::arrange::{Cell, shown};
use crate::shard::downsample::MetricLayout;
use crate::shard::head::Pairs;
use crate::shard::import::ImportHead;
use crate::slots::{Stored, push_runs};

/// The changes that storing a history makes.
#[derive(Debug, Default)]
pub(crate) struct ImportPlan {
    pub(crate) open: Vec<Window>,
    pub(crate) fill: Pairs,
    /// Rows of slots that no other writer has.
    pub(crate) rows: WriteBatch,
    /// Whole windows that may also contain points of other writers.
    pub(crate) shared: WriteBatch,
    pub(crate) report: HistoryReport,
}

/// A metric and its history.
pub(crate) struct Subject<'a> {
    pub(crate) head: &'a ImportHead,
    pub(crate) stages: &'a [Vec<Cell>],
    /// The stored slots of each stage; empty if the store has nothing of the metric.
    pub(crate) stored: &'a [Stored],
    pub(crate) overwrites: bool,
    /// Seconds since the epoch.
    pub(crate) now: i64,
}

impl Subject<'_> {
    pub(crate) fn plan(&self) -> ImportPlan {
        let mut plan = ImportPlan::default();
        self.raw(&mut plan);
        for stage in 1..=self.layout().coarse() {
            self.coarse(stage, &mut plan);
        }
        plan
    }

    fn layout(&self) -> &MetricLayout {
        &self.head.layout
    }

    fn stored(&self, stage: usize, slot: u32) -> Window {
        self.stored.get(stage).map_or(Window::default(), |stored| stored.get(slot))
    }

    fn raw(&self, plan: &mut ImportPlan) {
        let mut rows = Vec::new();
        for cell in &self.stages[0] {
            if cell.slot >= self.head.base {
                let is_held = self.head.pairs.binary_search_by_key(&cell.slot, |(slot, _)| *slot).is_ok();
                if is_held {
                    plan.report.kept += 1;
                } else {
                    plan.report.stored += 1;
                    plan.fill.push((cell.slot, cell.window.value));
                }
            } else if self.stored(0, cell.slot).count > 0 && !self.overwrites {
                plan.report.kept += 1;
            } else {
                plan.report.stored += 1;
                rows.push((cell.slot, cell.window));
            }
        }
        self.push(0, &rows, &mut plan.rows);
    }

    fn coarse(&self, stage: usize, plan: &mut ImportPlan) {
        let per = self.layout().per[stage - 1];
        let open_slot = self.head.base / per;
        // This window was open before the base was moved. The head's open window becomes its row.
        let left_slot = self.head.open_at / per;
        let left = self.head.open.get(stage - 1).copied().unwrap_or_default();
        let is_left = left.count > 0 && left_slot < open_slot;
        let cells = &self.stages[stage];
        let mut rows: BTreeMap<u32, (Window, bool)> = BTreeMap::new();
        if is_left {
            rows.insert(left_slot, (left, true));
        }
        for cell in cells.iter().filter(|cell| cell.slot < open_slot) {
            let known = if is_left && cell.slot == left_slot { left } else { self.stored(stage, cell.slot) };
            if known.count == 0 || self.overwrites {
                plan.report.stored += 1;
                rows.insert(cell.slot, (cell.window, known.count > 0));
                continue;
            }
            let whole = self.both(stage, cell, known);
            plan.report.folded += u64::from(whole != known && whole != cell.window);
            let is_taken = whole != known && whole == cell.window;
            if is_taken {
                plan.report.stored += 1;
            } else {
                plan.report.kept += 1;
            }
            if whole != known || is_left {
                rows.insert(cell.slot, (whole, true));
            }
        }
        let part = |is_shared: bool| {
            let of_part = rows.iter().filter(|(_, (_, shared))| *shared == is_shared);
            of_part.map(|(slot, (window, _))| (*slot, *window)).collect::<Vec<_>>()
        };
        self.push(stage, &part(false), &mut plan.rows);
        self.push(stage, &part(true), &mut plan.shared);
        let cell = cells.iter().find(|cell| cell.slot == open_slot);
        let known = if is_left { Window::default() } else { left };
        let fills = !plan.fill.is_empty() || !self.head.pairs.is_empty();
        plan.open.push(self.open(stage, open_slot, cell, known, fills));
        let held = cells.iter().filter(|cell| cell.slot >= open_slot).count() as u64;
        plan.report.stored += held;
    }

    fn shows_the_same(&self, stage: usize, known: Window, cell: &Cell) -> bool {
        if cell.is_exact {
            return known.count == cell.window.count && known.value.to_bits() == cell.window.value.to_bits();
        }
        let (method, per) = (self.layout().config.aggregation, self.layout().per[stage - 1]);
        method.finish(known, per).to_bits() == method.finish(cell.window, per).to_bits()
    }

    /// Decides about a closed window that both the store and the history have.
    fn both(&self, stage: usize, cell: &Cell, known: Window) -> Window {
        let per = self.layout().per[stage - 1];
        if self.shows_the_same(stage, known, cell) {
            return known;
        }
        let from = cell.slot * per;
        let fuller = known.count.max(cell.window.count);
        match self.fold_raw(from, from + per) {
            // Where raw slots have expired, the window with more slots is better than a fold of the remaining
            // slots.
            Some(folded) if cell.is_exact && folded.count < fuller => {
                if cell.window.count > known.count {
                    cell.window
                } else {
                    known
                }
            }
            Some(folded) => self.visible(stage, folded, cell),
            None if cell.window.count > known.count => cell.window,
            None => known,
        }
    }

    /// The folded window, changed if necessary so that readers see a value where the history showed one.
    fn visible(&self, stage: usize, folded: Window, cell: &Cell) -> Window {
        let (layout, per) = (self.layout(), self.layout().per[stage - 1]);
        let needed = layout.config.x_files_factor * f64::from(per);
        if !cell.is_shown || f64::from(folded.count) >= needed {
            return folded;
        }
        let value = layout.config.aggregation.finish(folded, per);
        shown(layout, stage, value, 1).unwrap_or(folded)
    }

    /// The open window, folded from its slots before the base. `is_held` says that the head holds later slots
    /// of the window.
    fn open(&self, stage: usize, slot: u32, cell: Option<&Cell>, known: Window, is_held: bool) -> Window {
        let (layout, per) = (self.layout(), self.layout().per[stage - 1]);
        let base = self.head.base;
        let passed = base - slot * per;
        if let Some(cell) = cell.filter(|cell| cell.is_exact && known.count == 0 && !is_held) {
            return cell.window;
        }
        if passed == 0 && (is_held || cell.is_none()) {
            return known;
        }
        let folded = self.fold_raw(slot * per, base);
        let ends = i64::from(slot + 1) * i64::from(layout.stage(stage).resolution);
        let Some(cell) = cell else {
            let is_ours = known.count > 0 || is_held || self.has_stored(slot * per, base);
            let Some(folded) = folded else { return known };
            return if is_ours || ends > self.now { folded } else { self.hidden(stage, folded) };
        };
        if known.count > 0 && !is_held && self.shows_the_same(stage, known, cell) {
            return known;
        }
        // The fold does not include the slots of the window that the head holds.
        if known.count > 0 || is_held {
            return match folded {
                Some(folded) => folded,
                None if passed.min(cell.window.count) > known.count => self.part(cell, passed),
                None => known,
            };
        }
        // Later points are added to this window, so its count must not exceed its number of slots. But the
        // count must be large enough for the window to be shown.
        let method = layout.config.aggregation;
        let value = method.finish(cell.window, per);
        let counted = folded.map_or(passed, |folded| folded.count);
        let needed = (layout.config.x_files_factor * f64::from(per)).ceil() as u32;
        let is_same = |folded: Window| method.finish(folded, per).to_bits() == value.to_bits();
        if let Some(folded) = folded
            && (ends > self.now || is_same(folded))
        {
            if folded.count >= needed {
                return folded;
            }
            // The mean of `avg_zero` is taken over all slots of the window, whatever the count is.
            if method == Aggregation::AvgZero {
                return Window { count: needed, ..folded };
            }
            return method.window_showing(method.finish(folded, per), needed).unwrap_or(folded);
        }
        if method == Aggregation::AvgZero {
            let window = Window { value: value * f64::from(per), count: counted.max(needed).max(1) };
            return if is_same(window) { window } else { cell.window };
        }
        method.window_showing(value, counted.max(needed)).unwrap_or(cell.window)
    }

    /// The folded window with a count that is too small for readers. Whisper shows no value here, because
    /// slots of the next finer archive have too few slots themselves.
    fn hidden(&self, stage: usize, folded: Window) -> Window {
        let (layout, per) = (self.layout(), self.layout().per[stage - 1]);
        let needed = (layout.config.x_files_factor * f64::from(per)).ceil() as u32;
        if folded.count < needed || needed < 2 {
            return folded;
        }
        let count = needed - 1;
        let value = match layout.config.aggregation {
            Aggregation::Average => folded.value * f64::from(count) / f64::from(folded.count),
            _ => folded.value,
        };
        Window { value, count }
    }

    /// Whether the store has one of the raw slots `from..until`.
    fn has_stored(&self, from: u32, until: u32) -> bool {
        (from..until).any(|slot| self.stored(0, slot).count > 0)
    }

    /// The part of a window that belongs to `slots` of its slots, if all of its slots have the same value.
    fn part(&self, cell: &Cell, slots: u32) -> Window {
        let Window { value, count } = cell.window;
        let share = f64::from(slots) / f64::from(count.max(1));
        match self.layout().config.aggregation {
            Aggregation::Average | Aggregation::AvgZero | Aggregation::Sum | Aggregation::Count => {
                Window { value: value * share, count: slots }
            }
            _ => Window { value, count: slots },
        }
    }

    /// Folds the raw slots `from..until` of store and history; `None` if the raw stage does not cover them or
    /// if none of them is known.
    fn fold_raw(&self, from: u32, until: u32) -> Option<Window> {
        let raw = self.layout().raw;
        let oldest = self.now - raw.duration() as i64;
        if i64::from(from) * i64::from(raw.resolution) < oldest {
            return None;
        }
        let cells = &self.stages[0];
        let first = cells.partition_point(|cell| cell.slot < from);
        let mut cells = cells[first..].iter().peekable();
        let slots = (from..until).map(|slot| {
            let cell = cells.next_if(|cell| cell.slot == slot).map(|cell| cell.window);
            let known = self.stored(0, slot);
            let both = if self.overwrites { [cell, Some(known)] } else { [Some(known), cell] };
            let window = both.into_iter().flatten().find(|window| window.count > 0);
            window.map_or(f64::NAN, |window| window.value)
        });
        let folded = self.layout().config.aggregation.fold_all(slots);
        (folded.count > 0).then_some(folded)
    }

    /// Adds slots in runs. Slots of a new metric need not be compared with stored ones.
    fn push(&self, stage: usize, slots: &[(u32, Window)], rows: &mut WriteBatch) {
        let whole = self.stored.is_empty() && stage == 0;
        push_runs(self.layout(), self.head.id, stage, whole, slots, rows);
    }
}
