//! Computes what the stages of the new settings get from the old stages. Pure.
//!
//! A slot is copied from an old stage of the same resolution, or folded from finer stages that cover it. If
//! these have no value, the value of a coarser window may be used: it goes into the slot in which the window
//! begins. It is not used if a finer stage has a point within the window, because that point already shows
//! where the window's points belong.
//!
//! The store may already have values of a new stage, from an earlier time when the metric had the same stage.
//! Where no old stage has slots, all of these values stay. Elsewhere, raw values stay if they agree with the
//! coarser windows. All others are deleted, so that nothing counts twice.

use std::ops::Range;

use plumbago_model::{Aggregation, Stage, Window};
use plumbago_store::{SlotRange, WriteBatch};

use crate::late::fold::Fold;
use crate::shard::downsample::MetricLayout;
use crate::shard::import::ImportHead;
use crate::slots::{Stored, push_runs};

/// Approximate number of slots that are read at a time, and of slots of new stages that are filled from one
/// read.
pub(super) const READ_SLOTS: u64 = 1 << 20;

/// A part of the work on one metric: the slots that are filled from one read.
#[derive(Debug)]
pub(crate) struct Part {
    /// New stages, each with the slots to fill.
    pub(crate) stages: Vec<(usize, Range<u32>)>,
    /// Whether the part also finds the open windows.
    pub(crate) with_open: bool,
    /// The ranges to read: one of each old stage, then one of each new stage.
    pub(crate) ranges: Vec<SlotRange>,
}

impl Part {
    /// The number of slots that are read.
    pub(crate) fn read(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.until - range.from)).sum()
    }

    /// The number of slots that are read and filled.
    pub(crate) fn size(&self) -> u64 {
        self.read() + self.stages.iter().map(|(_, slots)| slots.len() as u64).sum::<u64>()
    }

    /// Narrows each range to the part that may have rows: from the start of its first occupied part to the
    /// end of its last one.
    pub(crate) fn narrow(&mut self, occupied: &[Vec<Range<u32>>]) {
        for (range, parts) in self.ranges.iter_mut().zip(occupied) {
            let ends = parts.first().zip(parts.last());
            let (from, until) = ends.map_or((range.from, range.from), |(a, b)| (a.start, b.end));
            (range.from, range.until) = (from.max(range.from), until.min(range.until));
        }
    }
}

/// The result for some slots of a new stage.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    /// The slot of the first value.
    pub(crate) from: u32,
    /// One value for each slot; values without a count are not written.
    pub(crate) values: Vec<Window>,
    /// Slots whose value from an earlier time must be deleted.
    pub(crate) gone: Vec<Range<u32>>,
}

/// A metric that is getting new settings.
pub(crate) struct Change<'a> {
    pub(crate) head: &'a ImportHead,
    pub(crate) new: &'a MetricLayout,
    /// Seconds since the epoch.
    pub(crate) now: i64,
    /// Windows that end before this raw slot are closed.
    pub(crate) base: u32,
    /// The store has the raw slots before this one.
    pub(crate) raw_until: u32,
    /// The metadata store already has the new settings, from another daemon or from before a kill.
    pub(crate) is_follower: bool,
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
    fn slots(&self, stage: usize) -> Range<u32> {
        let of = self.new.stage(stage);
        let reach = of.duration().min(self.old().config.retention.duration());
        let end = if stage == 0 { self.raw_until } else { self.base / self.new.per[stage - 1] };
        self.oldest(of, reach).min(end)..end
    }

    /// The first slot of a stage that begins no more than `reach` seconds ago.
    fn oldest(&self, stage: Stage, reach: u64) -> u32 {
        u32::try_from((self.now - reach as i64 + 1).max(0)).unwrap_or(u32::MAX).div_ceil(stage.resolution)
    }

    /// Divides the work so that no read is too large. A metric of usual size is one part, so that each of its
    /// old stages is read once for all new ones.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let due = (0..=self.new.coarse()).filter(|stage| !self.is_kept(*stage));
        let due = due.map(|stage| (stage, self.slots(stage))).filter(|(_, slots)| !slots.is_empty());
        let whole = self.part(due.collect(), true);
        if whole.size() <= READ_SLOTS {
            return vec![whole];
        }
        let mut parts = vec![self.part(Vec::new(), true)];
        for (stage, mut slots) in whole.stages {
            while !slots.is_empty() {
                let part = slots.start..self.part_end(stage, &slots);
                slots.start = part.end;
                parts.push(self.part(vec![(stage, part)], false));
            }
        }
        parts
    }

    fn part(&self, stages: Vec<(usize, Range<u32>)>, with_open: bool) -> Part {
        let old = self.old().config.retention.stages().len();
        let mut ranges: Vec<SlotRange> =
            (0..old).map(|at| self.old().range(self.head.id, at, 0, 0)).collect();
        let mut own = Vec::with_capacity(stages.len());
        for (stage, slots) in &stages {
            let mut reads = self.reads(*stage, slots);
            own.extend(reads.pop());
            ranges.iter_mut().zip(reads).for_each(|(range, read)| *range = hull(*range, read));
        }
        for stage in (1..=self.new.coarse()).filter(|stage| with_open && self.folds_open(*stage)) {
            let (at, read) = self.open_read(stage);
            ranges[at] = hull(ranges[at], read);
        }
        ranges.extend(own);
        Part { stages, with_open, ranges }
    }

    /// The end of the next part of these slots. It is the end of a window of the coarsest old stage, so that
    /// no window is divided between two parts.
    fn part_end(&self, stage: usize, slots: &Range<u32>) -> u32 {
        let mut end = slots.end.min(slots.start.saturating_add(READ_SLOTS as u32));
        while end > slots.start + 1 {
            let ranges = self.reads(stage, &(slots.start..end));
            if ranges.iter().map(|range| u64::from(range.until - range.from)).sum::<u64>() <= READ_SLOTS {
                break;
            }
            end = slots.start + (end - slots.start).div_ceil(2);
        }
        let per = (self.coarsest() / u64::from(self.new.stage(stage).resolution)).max(1) as u32;
        let aligned = end / per * per;
        if end < slots.end && aligned > slots.start { aligned } else { end }
    }

    fn coarsest(&self) -> u64 {
        let stages = self.old().config.retention.stages();
        u64::from(stages[stages.len() - 1].resolution)
    }

    /// The ranges to read for these slots of a new stage: one for each old stage. The last range is of the
    /// new stage itself, which may have values from a time when the metric had the same stage.
    fn reads(&self, stage: usize, slots: &Range<u32>) -> Vec<SlotRange> {
        let resolution = u64::from(self.new.stage(stage).resolution);
        let stages = self.old().config.retention.stages();
        // Read whole windows, to find out whether a finer stage has a point within them.
        let from = u64::from(slots.start) * resolution / self.coarsest() * self.coarsest();
        let until = ((u64::from(slots.end) * resolution).div_ceil(self.coarsest()) + 1) * self.coarsest();
        let range = |(at, of): (usize, &Stage)| {
            let slot = |time: u64| u32::try_from(time.div_ceil(u64::from(of.resolution))).unwrap_or(u32::MAX);
            let until = slot(until).min(self.closed(at));
            let from = slot(from).max(self.oldest(*of, of.duration())).min(until);
            self.old().range(self.head.id, at, from, until)
        };
        let own = self.new.range(self.head.id, stage, slots.start, slots.end);
        stages.iter().enumerate().map(range).chain([own]).collect()
    }

    /// The end of the closed slots of an old stage.
    fn closed(&self, stage: usize) -> u32 {
        if stage == 0 { self.raw_until } else { self.base / self.old().per[stage - 1] }
    }

    /// The values of these slots of a new stage, from the columns that were read for the part: `sources` are
    /// those of the old stages, and `own` is that of the new stage.
    pub(crate) fn fill(&self, stage: usize, slots: &Range<u32>, sources: &[Stored], own: &Stored) -> Filled {
        let slots = &self.known_part(stage, slots, sources, own);
        if slots.is_empty() {
            return Filled { from: slots.start, ..Filled::default() };
        }
        let folds = self.folds(stage);
        let mut values: Vec<Window> =
            slots.clone().map(|slot| self.folded_from(stage, slot, &folds, sources)).collect();
        let covered_from = self.covered_from(stage, &folds);
        let is_follower = self.is_follower;
        let resolution = self.new.stage(stage).resolution;
        for (at, of) in self.others(stage) {
            let mut is_placed = vec![false; values.len()];
            for (window, known) in self.windows(at, &sources[at]) {
                if !is_follower
                    && self.completes(stage, of, (window, known), own, slots, covered_from, &mut values)
                {
                    continue;
                }
                let slot = (u64::from(window) * u64::from(of.resolution) / u64::from(resolution)) as u32;
                if !slots.contains(&slot) || self.is_shown_finer(at, window, sources) {
                    continue;
                }
                let cell = (slot - slots.start) as usize;
                if values[cell].count == 0 {
                    (values[cell], is_placed[cell]) = (self.placed(at, stage, known), true);
                } else if is_placed[cell] {
                    // Several old windows begin in this slot, because their resolution does not divide that
                    // of the new stage.
                    values[cell] =
                        self.new.config.aggregation.merge(values[cell], self.placed(at, stage, known));
                }
            }
        }
        self.with_own(stage, slots, values, own)
    }

    /// The part of these slots that can have a value according to what was read. Most metrics have points in
    /// only a part of their retention.
    fn known_part(&self, stage: usize, slots: &Range<u32>, sources: &[Stored], own: &Stored) -> Range<u32> {
        let resolution = self.new.stage(stage).resolution;
        let old = self.old().config.retention.stages().iter().map(|of| of.resolution);
        let columns = sources.iter().zip(old).chain([(own, resolution)]);
        let closed = columns.filter_map(|(source, resolution)| Some((source.known()?, resolution)));
        let open = self.head.open.iter().zip(1..).filter(|(open, _)| open.count > 0).map(|(_, at)| {
            let window = self.closed(at);
            (window..window.saturating_add(1), self.old().stage(at).resolution)
        });
        let seconds = closed
            .chain(open)
            .map(|(slots, of)| u64::from(slots.start) * u64::from(of)..u64::from(slots.end) * u64::from(of));
        let whole = seconds.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default();
        let slot = |slot: u64| u32::try_from(slot).unwrap_or(u32::MAX);
        let start = slot(whole.start / u64::from(resolution)).clamp(slots.start, slots.end);
        start..slot(whole.end.div_ceil(u64::from(resolution))).clamp(start, slots.end)
    }

    /// The known windows of a coarse old stage, including the open window, into which the head has folded the
    /// slots before its base.
    fn windows(&self, at: usize, source: &Stored) -> impl Iterator<Item = (u32, Window)> {
        let open = self.head.open.get(at - 1).map(|open| (self.closed(at), *open));
        source.iter().chain(open.filter(|(_, window)| window.count > 0))
    }

    /// The old stages from which this one cannot be folded, finest first: coarser stages, and stages whose
    /// resolution does not divide this one's.
    fn others(&self, stage: usize) -> impl Iterator<Item = (usize, Stage)> {
        let resolution = self.new.stage(stage).resolution;
        let stages = self.old().config.retention.stages().iter().copied().enumerate();
        stages.filter(move |(_, of)| !resolution.is_multiple_of(of.resolution))
    }

    /// The old stages from which a new one can be computed or copied, each with its oldest slot. The coarsest
    /// stage is first, because it also has points that arrived after the finer slots had expired. Percentiles
    /// are computed from the finest stage.
    fn folds(&self, stage: usize) -> Vec<(usize, u32)> {
        let resolution = self.new.stage(stage).resolution;
        let stages = self.old().config.retention.stages().iter().enumerate();
        let fit = stages.filter(|(_, of)| resolution.is_multiple_of(of.resolution));
        let mut folds: Vec<_> = fit.map(|(at, of)| (at, self.oldest(*of, of.duration()))).collect();
        let same = |at: usize| self.old().stage(at).resolution == resolution;
        if !self.new.config.aggregation.needs_all_slots() || folds.last().is_some_and(|(at, _)| same(*at)) {
            folds.reverse();
        }
        folds
    }

    /// The first slot that one of these old stages covers completely.
    fn covered_from(&self, stage: usize, folds: &[(usize, u32)]) -> u32 {
        let resolution = u64::from(self.new.stage(stage).resolution);
        let begin = |(at, oldest): &(usize, u32)| {
            (u64::from(*oldest) * u64::from(self.old().stage(*at).resolution)).div_ceil(resolution) as u32
        };
        folds.iter().map(begin).min().unwrap_or(u32::MAX)
    }

    /// The slots of an old stage that begin in a slot of another resolution.
    fn within(&self, at: usize, slot: u32, resolution: u32) -> Range<u32> {
        let of = u64::from(self.old().stage(at).resolution);
        let begin = u64::from(slot) * u64::from(resolution);
        let place = |time: u64| u32::try_from(time.div_ceil(of)).unwrap_or(u32::MAX);
        place(begin)..place(begin + u64::from(resolution))
    }

    /// The value of a slot, folded from the first of these old stages that covers it completely; if there is
    /// none, from a stage that covers a part of it.
    fn folded_from(&self, stage: usize, slot: u32, folds: &[(usize, u32)], sources: &[Stored]) -> Window {
        let resolution = self.new.stage(stage).resolution;
        let fold = |at: usize| self.folded(at, stage, self.within(at, slot, resolution), &sources[at], None);
        let covers = |(at, oldest): &&(usize, u32)| self.within(*at, slot, resolution).start >= *oldest;
        if let Some((at, _)) = folds.iter().find(covers) {
            // The first such stage counts even if it has no value here: a finer stage may have counted the
            // same point in another slot.
            return fold(*at);
        }
        folds.iter().map(|(at, _)| fold(*at)).find(|found| found.count > 0).unwrap_or_default()
    }

    /// Folds slots of an old stage into one slot of the new stage; the open window, if given, comes last.
    fn folded(
        &self,
        at: usize,
        stage: usize,
        slots: Range<u32>,
        source: &Stored,
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
    fn is_shown_finer(&self, at: usize, window: u32, sources: &[Stored]) -> bool {
        let resolution = self.old().stage(at).resolution;
        (0..at).any(|finer| {
            self.within(finer, window, resolution).any(|slot| sources[finer].get(slot).count > 0)
        })
    }

    /// Whether the values that a new stage has from an earlier time may show where the points of this old
    /// stage's windows are. All new stages have to agree on that, otherwise later changes would count points
    /// twice.
    fn may_complete(&self, stage: usize, of: Stage) -> bool {
        let coarse = &self.new.config.retention.stages()[1..];
        stage == 0 && coarse.iter().all(|coarse| coarse.resolution.is_multiple_of(of.resolution))
    }

    /// The new raw stage may have values from an earlier time within a coarser window. Uses these values if
    /// folding them together with the other slots gives exactly this window, because they show more precisely
    /// where the points are. Returns whether they are used.
    #[expect(clippy::too_many_arguments, reason = "one step of `fill`")]
    fn completes(
        &self,
        stage: usize,
        of: Stage,
        (window, known): (u32, Window),
        own: &Stored,
        slots: &Range<u32>,
        covered_from: u32,
        values: &mut [Window],
    ) -> bool {
        let resolution = self.new.stage(stage).resolution;
        if !self.may_complete(stage, of) {
            return false;
        }
        let first = window.saturating_mul(of.resolution / resolution);
        let within = first..first.saturating_add(of.resolution / resolution);
        let method = self.new.config.aggregation;
        let is_taken = |slot: u32| slot < covered_from && own.get(slot).count > 0;
        if within.start < slots.start || within.end > slots.end || !within.clone().any(is_taken) {
            return false;
        }
        let mut fold = Fold::new(method, stage);
        for slot in within.clone() {
            let filled = values[(slot - slots.start) as usize];
            let is_own = filled.count == 0 && slot < covered_from;
            fold.add(method, if is_own { own.get(slot) } else { filled });
        }
        let whole = fold.end(method);
        let is_same = whole.count == known.count
            && (whole.value - known.value).abs() <= 1e-9 * known.value.abs().max(1.0);
        if is_same {
            for slot in within.filter(|slot| *slot < covered_from) {
                let value = &mut values[(slot - slots.start) as usize];
                if value.count == 0 {
                    *value = own.get(slot);
                }
            }
        }
        is_same
    }

    /// Decides which of the values that the new stage has from an earlier time are kept.
    fn with_own(&self, stage: usize, slots: &Range<u32>, mut values: Vec<Window>, own: &Stored) -> Filled {
        let known = |slot: &u32| own.get(*slot).count > 0;
        if self.is_follower {
            // Another daemon is already writing this stage. Its rows stay.
            let coarse = slots.clone().filter(|slot| stage > 0 && known(slot));
            coarse.for_each(|slot| values[(slot - slots.start) as usize] = Window::default());
            return Filled { from: slots.start, values, gone: Vec::new() };
        }
        let is_gone = |slot: &u32| known(slot) && values[(*slot - slots.start) as usize].count == 0;
        let gone: Vec<u32> = slots.clone().filter(is_gone).collect();
        let gone = gone.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1).collect();
        Filled { from: slots.start, values, gone }
    }

    /// Turns a coarser window into a slot of a new stage.
    fn placed(&self, at: usize, stage: usize, window: Window) -> Window {
        let method = self.new.config.aggregation;
        let value = self.old().config.aggregation.finish(window, self.old().per[at - 1]);
        match (stage, method) {
            (0, _) => Window { value, count: 1 },
            // The mean of `avg_zero` is taken over all slots of the window.
            (_, Aggregation::AvgZero) => {
                method.window_showing(value, self.new.per[stage - 1]).unwrap_or(window)
            }
            _ => window,
        }
    }

    /// The range to read for the open window of a new stage, and the old stage to read it from.
    fn open_read(&self, stage: usize) -> (usize, SlotRange) {
        let of = self.new.stage(stage);
        let slot = self.base / self.new.per[stage - 1];
        let old = self.old().config.retention.stages();
        let fits = |(_, known): &(usize, &Stage)| of.resolution.is_multiple_of(known.resolution);
        let covers = |(at, known): &(usize, &Stage)| {
            self.within(*at, slot, of.resolution).start >= self.oldest(**known, known.duration())
        };
        let found = old.iter().enumerate().filter(fits).find(covers);
        let at = found.or_else(|| old.iter().enumerate().rfind(fits)).map_or(0, |(at, _)| at);
        let until = self.closed(at);
        // Expired slots may still be in the store, but the coarser stages already include them.
        let oldest = self.oldest(old[at], old[at].duration());
        let from = self.within(at, slot, of.resolution).start.max(oldest).min(until);
        (at, self.old().range(self.head.id, at, from, until))
    }

    /// Whether the open window of a new stage is folded from an old one.
    fn folds_open(&self, stage: usize) -> bool {
        !self.new.config.aggregation.needs_all_slots()
            && self.old_open(self.new.stage(stage).resolution).is_none()
    }

    /// The open window of a new stage. It is that of an old stage of the same resolution, or it is folded
    /// from the slots that were read of the old stages.
    pub(crate) fn open(&self, stage: usize, sources: &[Stored]) -> Window {
        if self.new.config.aggregation.needs_all_slots() {
            return Window::default();
        }
        if let Some(same) = self.old_open(self.new.stage(stage).resolution) {
            return same;
        }
        let (at, range) = self.open_read(stage);
        let Some(source) = sources.get(at) else { return Window::default() };
        let open = (at > 0).then(|| self.head.open.get(at - 1).copied().unwrap_or_default());
        self.folded(at, stage, range.from..range.until, source, Some(open.unwrap_or_default()))
    }

    fn old_open(&self, resolution: u32) -> Option<Window> {
        let stages = &self.old().config.retention.stages()[1..];
        let at = stages.iter().position(|known| known.resolution == resolution)?;
        self.head.open.get(at).copied()
    }

    /// Adds slots of a new stage to a batch, in runs. Returns the number of known slots.
    pub(crate) fn push(&self, stage: usize, filled: &Filled, rows: &mut WriteBatch) -> u64 {
        let slots = (filled.from..).zip(filled.values.iter().copied());
        let known: Vec<(u32, Window)> = slots.filter(|(_, window)| window.count > 0).collect();
        push_runs(self.new, self.head.id, stage, false, &known, rows);
        known.len() as u64
    }
}

/// The smallest range that contains both ranges. An empty range does not count.
fn hull(a: SlotRange, b: SlotRange) -> SlotRange {
    match (a.from < a.until, b.from < b.until) {
        (_, false) => a,
        (false, true) => b,
        (true, true) => SlotRange { from: a.from.min(b.from), until: a.until.max(b.until), ..a },
    }
}
