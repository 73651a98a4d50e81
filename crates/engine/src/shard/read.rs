//! What heads add to a read.

use std::sync::Arc;

use plumbago_model::{MetricId, Window};

use super::Shard;
use crate::downsample::Plan;
use crate::head::{Pairs, flag};
use crate::router::NameHash;

/// A read of heads; one answer for each hash, in order.
#[derive(Debug)]
pub(crate) struct HeadQuery {
    pub(crate) hashes: Vec<NameHash>,
    pub(crate) from: i64,
    pub(crate) until: i64,
    pub(crate) now: i64,
}

/// A metric's part of a read: which stage answers, and what the head knows of it.
#[derive(Debug)]
pub(crate) struct HeadAnswer {
    pub(crate) id: MetricId,
    pub(crate) plan: Arc<Plan>,
    pub(crate) stage: usize,
    /// First slot of the answer, and the first one after it.
    pub(crate) slots: (u32, u32),
    /// Raw slots of the head, when stage 0 answers or percentiles need them.
    pub(crate) raw: Pairs,
    /// The head's windows, when a coarse stage answers.
    pub(crate) windows: Vec<(u32, Window)>,
    /// The head's base: the store knows the raw slots before it.
    pub(crate) base: u32,
}

impl HeadAnswer {
    /// What a head without points says of a read of `(from, until]` at `now`; `None` when the retention
    /// does not reach the range.
    pub(crate) fn empty(id: MetricId, plan: Arc<Plan>, range: (i64, i64, i64)) -> Option<Self> {
        let (from, until, now) = range;
        let (stage, slots) = choose(&plan, from, until, now)?;
        Some(Self { id, plan, stage, slots, raw: Pairs::new(), windows: Vec::new(), base: 0 })
    }
}

impl Shard {
    /// Chooses the stage as whisper does (`reference/graphite.md` §5.1); `None` when the metric is
    /// unknown or its retention does not reach the range.
    pub(crate) fn read(&mut self, query: &HeadQuery, hash: &NameHash) -> Option<HeadAnswer> {
        let at = self.find(hash)?;
        let head = &self.heads[at];
        let plan = Arc::clone(&self.plans[usize::from(head.config)]);
        let range = (query.from, query.until, query.now);
        let mut answer = HeadAnswer { base: head.base, ..HeadAnswer::empty(head.id, plan, range)? };
        let (stage, slots) = (answer.stage, answer.slots);
        if head.is(flag::NEW) {
            return Some(answer);
        }
        let newest_window = head.newest / if stage == 0 { 1 } else { answer.plan.per[stage - 1] };
        if newest_window < slots.0 {
            return Some(answer);
        }
        let mut pairs = Pairs::new();
        head.pairs(&self.pool, &mut self.scratch, &mut pairs);
        if stage == 0 {
            pairs.retain(|(slot, _)| (slots.0..slots.1).contains(slot));
            answer.raw = pairs;
        } else if answer.plan.config.aggregation.needs_all_slots() {
            answer.raw = pairs;
        } else {
            let open = self.windows[head.windows + stage as u32 - 1];
            answer.windows = windows(&answer, open, &pairs);
        }
        Some(answer)
    }
}

/// The windows of the head: the open one and those after it.
fn windows(answer: &HeadAnswer, open: Window, pairs: &[(u32, f64)]) -> Vec<(u32, Window)> {
    let per = answer.plan.per[answer.stage - 1];
    let method = answer.plan.config.aggregation;
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

/// The stage that answers a read and its slots, `first..end`.
fn choose(plan: &Plan, from: i64, until: i64, now: i64) -> Option<(usize, (u32, u32))> {
    let oldest = now - plan.config.retention.duration() as i64;
    if from > until || from > now || until < oldest {
        return None;
    }
    let from = from.max(oldest).max(0);
    let until = until.min(now).max(0);
    let stage = plan.config.retention.stage_for_age(now - from).unwrap_or(plan.coarse());
    let resolution = i64::from(plan.stage(stage).resolution);
    let first = from / resolution + 1;
    let end = (until / resolution + 1).max(first + i64::from(until / resolution + 1 == first));
    Some((stage, (u32::try_from(first).ok()?, u32::try_from(end).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_time_are_those_of_whisper() {
        let plan = Plan::new(Arc::new(plumbago_model::MetricConfig {
            retention: "60s:1h,300s:1d".parse().unwrap(),
            aggregation: Default::default(),
            x_files_factor: 0.5,
        }));
        let now = 6_000_000;
        // (from, until]: from on the grid is excluded, until included.
        assert_eq!(choose(&plan, now - 300, now, now), Some((0, (99_996, 100_001))));
        assert_eq!(choose(&plan, now - 3600, now, now).map(|c| c.0), Some(0));
        assert_eq!(choose(&plan, now - 3601, now, now).map(|c| c.0), Some(1));
        // A range within one slot still answers one.
        assert_eq!(choose(&plan, now - 50, now - 40, now), Some((0, (100_000, 100_001))));
        assert_eq!(choose(&plan, now + 1, now + 2, now), None);
        assert_eq!(choose(&plan, now - 200_000, now - 90_000, now), None);
        assert_eq!(choose(&plan, now - 200_000, now - 80_000, now).map(|c| c.0), Some(1));
    }
}
