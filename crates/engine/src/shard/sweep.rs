//! The slow walk over all metrics: state rows for points that the journal has kept long enough,
//! whole flushes for metrics that fell silent, and the oldest journal segment still needed.

use super::Shard;
use super::flush::Extent;
use crate::head::flag;
use crate::jobs::Flushes;

/// Where the walk stands.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    next: u32,
    started_in: u32,
    oldest: u32,
    /// A walk is over and the next has not begun.
    pub(crate) rests: bool,
    /// Segments below this one are not needed by this shard, as of the last full walk.
    pub(crate) needed_from: u32,
}

impl Shard {
    /// Looks at the next `heads` metrics and adds what they need to `flushes`. `segment` is the journal
    /// segment that is written now.
    pub(crate) fn sweep(&mut self, heads: u32, segment: u32, now: i64, flushes: &mut Flushes) {
        let len = self.len() as u32;
        self.sweep.rests = false;
        for _ in 0..heads {
            if self.sweep.next == 0 {
                (self.sweep.started_in, self.sweep.oldest) = (segment, segment);
            }
            if self.sweep.next >= len {
                self.end_walk();
                return;
            }
            let at = self.sweep.next;
            self.sweep.next += 1;
            self.visit(at, segment, now, flushes);
        }
    }

    fn visit(&mut self, at: u32, segment: u32, now: i64, flushes: &mut Flushes) {
        let head = &self.heads[at];
        if head.segment != 0 {
            self.sweep.oldest = self.sweep.oldest.min(head.segment);
        }
        if self.limits.at_intervals {
            if self.may_flush(at) {
                self.visit_at_interval(at, segment, now, flushes);
            } else if self.late.is_under_way(at) && !self.heads[at].is(flag::DUE) {
                // As soon as they are stored.
                self.heads[at].set(flag::DUE);
                self.due.push(at);
            }
            return;
        }
        // Late points go first, so that the state row covers them.
        if !self.may_flush(at) || head.is(flag::STALE) {
            return;
        }
        let plan = &self.plans[usize::from(head.config)];
        let resolution = i64::from(plan.raw.resolution);
        // Windows that need all their slots close while the store still has them.
        let patience = if plan.config.aggregation.needs_all_slots() {
            self.limits.idle_after.min(plan.raw.duration() as i64 / 2)
        } else {
            self.limits.idle_after
        };
        // The span of a head at work, so that a slow metric is not taken for a silent one.
        let span = i64::from(self.layout.raw_slots + super::ALLOWANCE) * resolution;
        let silent = !head.is(flag::NEW) && now - i64::from(head.newest) * resolution > patience + span;
        if silent && (!head.is_empty() || head.segment != 0) {
            self.build(at, Extent::All { now }, segment, flushes);
        } else if head.segment != 0 && segment.saturating_sub(head.segment) >= self.limits.checkpoint_segments
        {
            self.build(at, Extent::State, segment, flushes);
        }
    }

    /// Hands over what has come since the last walk; a metric that fell silent is flushed whole, so
    /// that its last windows close.
    fn visit_at_interval(&mut self, at: u32, segment: u32, now: i64, flushes: &mut Flushes) {
        let head = &self.heads[at];
        let resolution = i64::from(self.plans[usize::from(head.config)].raw.resolution);
        let silent = now / resolution - i64::from(head.newest) > i64::from(2 * super::ALLOWANCE);
        if head.is(flag::NEW) {
            if head.segment != 0 {
                self.build(at, Extent::State, segment, flushes);
            }
        } else if silent && !head.is_empty() {
            self.build(at, Extent::All { now }, segment, flushes);
        } else if head.is(flag::SINCE | flag::REWRITE) || head.segment != 0 {
            self.build(at, self.usual_extent(), segment, flushes);
        }
    }

    /// True when some metric has points that only the journal holds.
    pub(crate) fn has_unflushed(&self) -> bool {
        (0..self.len() as u32).any(|at| self.heads[at].segment != 0)
    }

    fn end_walk(&mut self) {
        self.sweep.needed_from = self.sweep.oldest.min(self.sweep.started_in);
        self.sweep.next = 0;
        self.sweep.rests = true;
    }
}
