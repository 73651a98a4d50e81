//! Reads from heads.

use std::ops::Range;
use std::sync::Arc;

use plumbago_model::{MetricId, Window};

use super::Shard;
use crate::router::NameHash;
use crate::shard::downsample::MetricLayout;
use crate::shard::head::Pairs;
use crate::shard::head_state::mark;

/// A request to read the heads of these metrics. The answers are in the same order.
#[derive(Debug, Default)]
pub(crate) struct HeadQuery {
    pub(crate) hashes: Vec<NameHash>,
    /// The start of the range in seconds since the epoch, exclusive.
    pub(crate) from: i64,
    /// The end of the range in seconds since the epoch, inclusive.
    pub(crate) until: i64,
    /// The time of the request, in seconds since the epoch. It determines the stage.
    pub(crate) now: i64,
    /// Whether to read the whole raw stage of each metric, whatever the range is.
    pub(crate) whole_raw: bool,
}

/// What a head contributes to a read of its metric.
#[derive(Debug)]
pub(crate) struct HeadAnswer {
    pub(crate) id: MetricId,
    pub(crate) layout: Arc<MetricLayout>,
    /// The stage that answers.
    pub(crate) stage: usize,
    /// The first slot of the answer, and the slot after the last one.
    pub(crate) slots: (u32, u32),
    /// The raw slots of the head, if stage 0 answers or percentiles need them.
    pub(crate) raw: Pairs,
    /// The head's windows, if a coarse stage answers.
    pub(crate) windows: Vec<(u32, Window)>,
    /// The base of the head. The store has the raw slots before it.
    pub(crate) base: u32,
}

impl HeadAnswer {
    /// The answer of a head without points to a read of `(from, until]` at `now`. `None` if the retention
    /// does not reach the range.
    pub(crate) fn empty(id: MetricId, layout: Arc<MetricLayout>, range: (i64, i64, i64)) -> Option<Self> {
        let (from, until, now) = range;
        let (stage, slots) = choose(&layout, from, until, now)?;
        Some(Self { id, layout, stage, slots, raw: Pairs::new(), windows: Vec::new(), base: 0 })
    }

    /// The part of this answer in a range of its slots.
    pub(crate) fn part(&self, slots: &Range<u32>) -> Self {
        let layout = Arc::clone(&self.layout);
        // Where a coarse stage answers, the raw slots may belong to any window.
        let raw = if self.stage == 0 { within(&self.raw, slots) } else { &self.raw };
        Self {
            id: self.id,
            layout,
            stage: self.stage,
            slots: (slots.start, slots.end),
            raw: raw.to_vec(),
            windows: within(&self.windows, slots).to_vec(),
            base: self.base,
        }
    }

    /// The answer without points for the whole raw stage, up to slot `newest` if that is after `now`.
    fn whole_raw(id: MetricId, layout: Arc<MetricLayout>, now: i64, newest: u32) -> Self {
        let resolution = i64::from(layout.raw.resolution);
        let slot = |time: i64| u32::try_from(time.max(0) / resolution).unwrap_or(u32::MAX - 1);
        let until = slot(now).max(newest).saturating_add(1);
        let first = slot(now - layout.raw.duration() as i64).saturating_add(1).min(until);
        let slots = (first, until);
        Self { id, layout, stage: 0, slots, raw: Pairs::new(), windows: Vec::new(), base: 0 }
    }
}

/// The entries for these slots. All are in the order of their slots.
fn within<'a, T>(all: &'a [(u32, T)], slots: &Range<u32>) -> &'a [(u32, T)] {
    let first = all.partition_point(|(slot, _)| *slot < slots.start);
    let end = all.partition_point(|(slot, _)| *slot < slots.end);
    &all[first..end.max(first)]
}

impl Shard {
    /// Reads the head of a metric. `None` if the metric has no head or its retention does not reach the
    /// range.
    pub(crate) fn read(&mut self, query: &HeadQuery, hash: &NameHash) -> Option<HeadAnswer> {
        let at = self.find(hash)?;
        let head = &self.heads[at];
        let layout = Arc::clone(&self.layouts[usize::from(head.config)]);
        let answer = if query.whole_raw {
            HeadAnswer::whole_raw(head.id, layout, query.now, head.newest)
        } else {
            HeadAnswer::empty(head.id, layout, (query.from, query.until, query.now))?
        };
        let mut answer = HeadAnswer { base: head.base, ..answer };
        let (stage, slots) = (answer.stage, answer.slots);
        if !head.is(mark::PLACED) {
            return Some(answer);
        }
        let newest_window = head.newest / if stage == 0 { 1 } else { answer.layout.per[stage - 1] };
        if newest_window < slots.0 {
            return Some(answer);
        }
        let mut pairs = Pairs::new();
        head.pairs(&self.pool, &mut self.scratch, &mut pairs);
        if stage == 0 {
            pairs.retain(|(slot, _)| (slots.0..slots.1).contains(slot));
            answer.raw = pairs;
        } else if answer.layout.config.aggregation.needs_all_slots() {
            answer.raw = pairs;
        } else {
            let open = self.windows[head.windows + stage as u32 - 1];
            answer.windows = windows(&answer, open, &pairs);
        }
        Some(answer)
    }
}

/// The windows of the head: the open window and those after it.
fn windows(answer: &HeadAnswer, open: Window, pairs: &[(u32, f64)]) -> Vec<(u32, Window)> {
    let per = answer.layout.per[answer.stage - 1];
    let method = answer.layout.config.aggregation;
    let mut out = vec![(answer.base / per, open)];
    for &(slot, value) in pairs {
        if out[out.len() - 1].0 != slot / per {
            out.push((slot / per, Window::default()));
        }
        if let Some((_, window)) = out.last_mut() {
            method.fold(window, value);
        }
    }
    out.retain(|(window, value)| value.count > 0 && (answer.slots.0..answer.slots.1).contains(window));
    out
}

/// Chooses the stage that answers a read, and its slots `first..end`. As in whisper, it is the finest stage
/// that covers `now - from`.
fn choose(layout: &MetricLayout, from: i64, until: i64, now: i64) -> Option<(usize, (u32, u32))> {
    let oldest = now - layout.config.retention.duration() as i64;
    if from > until || from > now || until < oldest {
        return None;
    }
    let from = from.max(oldest).max(0);
    let until = until.min(now).max(0);
    let stage = layout.config.retention.stage_for_age(now - from).unwrap_or(layout.coarse());
    let resolution = i64::from(layout.stage(stage).resolution);
    let first = from / resolution + 1;
    let end = (until / resolution + 1).max(first + i64::from(until / resolution + 1 == first));
    Some((stage, (u32::try_from(first).ok()?, u32::try_from(end).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_time_are_those_of_whisper() {
        let layout = MetricLayout::new(Arc::new(plumbago_model::MetricConfig {
            retention: "60s:1h,300s:1d".parse().unwrap(),
            aggregation: Default::default(),
            x_files_factor: 0.5,
        }));
        let now = 6_000_000;
        // The range is (from, until]: a start on the grid is excluded, an end on the grid is included.
        assert_eq!(choose(&layout, now - 300, now, now), Some((0, (99_996, 100_001))));
        assert_eq!(choose(&layout, now - 3600, now, now).map(|c| c.0), Some(0));
        assert_eq!(choose(&layout, now - 3601, now, now).map(|c| c.0), Some(1));
        // A range within one slot still returns that slot.
        assert_eq!(choose(&layout, now - 50, now - 40, now), Some((0, (100_000, 100_001))));
        assert_eq!(choose(&layout, now + 1, now + 2, now), None);
        assert_eq!(choose(&layout, now - 200_000, now - 90_000, now), None);
        assert_eq!(choose(&layout, now - 200_000, now - 80_000, now).map(|c| c.0), Some(1));
    }
}
