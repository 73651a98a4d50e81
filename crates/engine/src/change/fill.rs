//! What the stages of changed settings get from the old ones. Pure.
//!
//! A slot comes from the finest old stage that covers it: taken over from one of the same resolution, or folded from a
//! finer one. If the finer ones have nothing there, the value of a coarser window goes into the slot in which the window
//! begins; never if a finer stage has a point within the window, because then that shows where its points are.

use std::ops::Range;

use plumbago_model::{Aggregation, Stage, Window};
use plumbago_store::{Column, RowCount, SlotRange, WriteBatch};

use crate::late::fold::Fold;
use crate::late::refold::window_at;
use crate::shard::downsample::MetricLayout;
use crate::shard::import::ImportHead;

/// Slots of old stages that are read at a time, and slots of a new stage that are filled, about.
const READ_SLOTS: u64 = 1 << 20;
/// Unknown slots in a row that a run may contain; with more, a new run begins.
const GAP: u32 = 256;

/// The slots of an old stage, from a slot on.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) first: u32,
    pub(crate) column: Column,
}

impl Source {
    fn get(&self, slot: u32) -> Window {
        slot.checked_sub(self.first).map_or(Window::default(), |at| window_at(&self.column, at as usize))
    }
}

/// A metric that gets other settings.
pub(crate) struct Change<'a> {
    pub(crate) head: &'a ImportHead,
    pub(crate) new: &'a MetricLayout,
    /// Seconds since the epoch.
    pub(crate) now: i64,
    /// Windows that end before this raw slot are closed.
    pub(crate) base: u32,
    /// The store has the raw slots before this one.
    pub(crate) raw_until: u32,
}

impl Change<'_> {
    fn old(&self) -> &MetricLayout {
        &self.head.layout
    }

    /// Whether a stage stays as it is.
    pub(crate) fn is_kept(&self, stage: usize) -> bool {
        let old = self.old().config.retention.stages();
        old.iter().position(|known| *known == self.new.stage(stage)).is_some_and(|at| (at > 0) == (stage > 0))
    }

    /// The slots of a new stage that can have a value: not expired, and closed.
    pub(crate) fn slots(&self, stage: usize) -> Range<u32> {
        let of = self.new.stage(stage);
        let reach = of.duration().min(self.old().config.retention.duration());
        let end = if stage == 0 { self.raw_until } else { self.base / self.new.per[stage - 1] };
        self.oldest(of, reach).min(end)..end
    }

    /// The first slot of a stage whose beginning is at most this old.
    fn oldest(&self, stage: Stage, reach: u64) -> u32 {
        u32::try_from((self.now - reach as i64 + 1).max(0)).unwrap_or(u32::MAX).div_ceil(stage.resolution)
    }

    /// The end of the next part of these slots to fill at once.
    pub(crate) fn part_end(&self, stage: usize, slots: &Range<u32>) -> u32 {
        let mut end = slots.end.min(slots.start.saturating_add(READ_SLOTS as u32));
        while end > slots.start + 1 {
            let ranges = self.reads(stage, &(slots.start..end));
            if ranges.iter().map(|range| u64::from(range.until - range.from)).sum::<u64>() <= READ_SLOTS {
                break;
            }
            end = slots.start + (end - slots.start).div_ceil(2);
        }
        end
    }

    /// What of the old stages is needed for these slots of a new one; one range for each old stage.
    pub(crate) fn reads(&self, stage: usize, slots: &Range<u32>) -> Vec<SlotRange> {
        let resolution = u64::from(self.new.stage(stage).resolution);
        let stages = self.old().config.retention.stages();
        let coarsest = u64::from(stages[stages.len() - 1].resolution);
        // Whole windows, so that it shows whether a finer stage has a point of them.
        let from = u64::from(slots.start) * resolution / coarsest * coarsest;
        let until = ((u64::from(slots.end) * resolution).div_ceil(coarsest) + 1) * coarsest;
        let range = |(at, of): (usize, &Stage)| {
            let slot = |time: u64| u32::try_from(time.div_ceil(u64::from(of.resolution))).unwrap_or(u32::MAX);
            let until = slot(until).min(self.closed(at));
            let from = slot(from).max(self.oldest(*of, of.duration())).min(until);
            self.old().range(self.head.id, at, from, until)
        };
        stages.iter().enumerate().map(range).collect()
    }

    /// The end of the closed slots of an old stage.
    fn closed(&self, stage: usize) -> u32 {
        if stage == 0 { self.raw_until } else { self.base / self.old().per[stage - 1] }
    }

    /// The values of these slots of a new stage.
    pub(crate) fn fill(&self, stage: usize, slots: &Range<u32>, sources: &[Source]) -> Vec<Window> {
        let mut filled: Vec<Window> =
            slots.clone().map(|slot| self.from_finer(stage, slot, sources)).collect();
        let resolution = self.new.stage(stage).resolution;
        let old = self.old().config.retention.stages();
        for (at, of) in old.iter().enumerate().filter(|(_, of)| of.resolution > resolution) {
            let source = &sources[at];
            for place in 0..source.column.values.len() as u32 {
                let window = source.first + place;
                let slot = (u64::from(window) * u64::from(of.resolution) / u64::from(resolution)) as u32;
                let known = source.get(window);
                if known.count > 0 && slots.contains(&slot) && !self.is_shown_finer(at, window, sources) {
                    let cell = &mut filled[(slot - slots.start) as usize];
                    if cell.count == 0 {
                        *cell = self.placed(at, stage, known);
                    }
                }
            }
        }
        filled
    }

    /// The slots of an old stage that begin in a slot of another resolution.
    fn within(&self, at: usize, slot: u32, resolution: u32) -> Range<u32> {
        let of = u64::from(self.old().stage(at).resolution);
        let begin = u64::from(slot) * u64::from(resolution);
        let place = |time: u64| u32::try_from(time.div_ceil(of)).unwrap_or(u32::MAX);
        place(begin)..place(begin + u64::from(resolution))
    }

    /// A slot from the old stages that are as fine or finer. The finest one that covers the whole slot counts; one that
    /// covers a part of it only if no other has anything.
    fn from_finer(&self, stage: usize, slot: u32, sources: &[Source]) -> Window {
        let resolution = self.new.stage(stage).resolution;
        let old = self.old().config.retention.stages();
        let finer = || old.iter().enumerate().filter(|(_, of)| of.resolution <= resolution);
        for needs_whole in [true, false] {
            for (at, of) in finer() {
                let within = self.within(at, slot, resolution);
                if needs_whole && within.start < self.oldest(*of, of.duration()) {
                    continue;
                }
                let found = self.folded(at, stage, within, &sources[at], None);
                if found.count > 0 {
                    return found;
                }
            }
        }
        Window::default()
    }

    /// Slots of an old stage as one of the new stage, with its open window after them.
    fn folded(
        &self,
        at: usize,
        stage: usize,
        slots: Range<u32>,
        source: &Source,
        open: Option<Window>,
    ) -> Window {
        if stage == 0 || (at > 0 && open.is_none() && slots.len() == 1) {
            return source.get(slots.start);
        }
        let method = self.new.config.aggregation;
        let mut fold = Fold::new(method, at);
        slots.for_each(|slot| fold.add(method, source.get(slot)));
        fold.add(method, open.unwrap_or_default());
        fold.end(method)
    }

    /// Whether a finer stage has a point within a window.
    fn is_shown_finer(&self, at: usize, window: u32, sources: &[Source]) -> bool {
        let resolution = self.old().stage(at).resolution;
        (0..at).any(|finer| {
            self.within(finer, window, resolution).any(|slot| sources[finer].get(slot).count > 0)
        })
    }

    /// A coarser window as a slot of a new stage.
    fn placed(&self, at: usize, stage: usize, window: Window) -> Window {
        let method = self.new.config.aggregation;
        let value = self.old().config.aggregation.finish(window, self.old().per[at - 1]);
        match (stage, method) {
            (0, _) => Window { value, count: 1 },
            // Its mean is over all slots of the window.
            (_, Aggregation::AvgZero) => {
                method.window_showing(value, self.new.per[stage - 1]).unwrap_or(window)
            }
            _ => window,
        }
    }

    /// What has to be read for the open window of a new stage, and from which old stage.
    pub(crate) fn open_read(&self, stage: usize) -> (usize, SlotRange) {
        let of = self.new.stage(stage);
        let slot = self.base / self.new.per[stage - 1];
        let old = self.old().config.retention.stages();
        let fits = |(_, known): &(usize, &Stage)| known.resolution <= of.resolution;
        let covers = |(at, known): &(usize, &Stage)| {
            self.within(*at, slot, of.resolution).start >= self.oldest(**known, known.duration())
        };
        let found = old.iter().enumerate().filter(fits).find(covers);
        let at = found.or_else(|| old.iter().enumerate().filter(fits).next_back()).map_or(0, |(at, _)| at);
        let until = self.closed(at);
        let from = self.within(at, slot, of.resolution).start.min(until);
        (at, self.old().range(self.head.id, at, from, until))
    }

    /// The open window of a new stage: that of an old one of the same resolution, or folded from what was read.
    pub(crate) fn open(&self, stage: usize, at: usize, source: &Source) -> Window {
        let of = self.new.stage(stage);
        if self.new.config.aggregation.needs_all_slots() {
            return Window::default();
        }
        if let Some(same) = self.old_open(of.resolution) {
            return same;
        }
        let slot = self.base / self.new.per[stage - 1];
        let last = self.within(at, slot, of.resolution).start..self.closed(at);
        let open = (at > 0).then(|| self.head.open.get(at - 1).copied().unwrap_or_default());
        self.folded(at, stage, last, source, Some(open.unwrap_or_default()))
    }

    fn old_open(&self, resolution: u32) -> Option<Window> {
        let stages = &self.old().config.retention.stages()[1..];
        let at = stages.iter().position(|known| known.resolution == resolution)?;
        self.head.open.get(at).copied()
    }

    /// Adds slots of a new stage to a batch, in runs. Returns how many are known.
    pub(crate) fn push(&self, stage: usize, first: u32, slots: &[Window], rows: &mut WriteBatch) -> u64 {
        let known: Vec<(u32, Window)> =
            (first..).zip(slots.iter().copied()).filter(|(_, window)| window.count > 0).collect();
        for run in known.chunk_by(|a, b| b.0 - a.0 <= GAP) {
            let first = run[0].0;
            let len = (run[run.len() - 1].0 - first + 1) as usize;
            let (mut values, mut counts) = (vec![f64::NAN; len], vec![RowCount::ZERO; len]);
            for (slot, window) in run {
                values[(slot - first) as usize] = window.value;
                counts[(slot - first) as usize] = window.count.into();
            }
            rows.push(self.new.run(self.head.id, stage, first), &values, (stage > 0).then_some(&counts));
        }
        known.len() as u64
    }
}
