//! The sweep: a slow, repeated pass over all metrics. It writes state rows for points that have been in the
//! journal for a long time, flushes all slots of metrics without new points, and finds the oldest journal
//! segment that is still needed.

use super::Shard;
use super::flush::Extent;
use crate::shard::head_state::mark;
use crate::shard::jobs::Flushes;

/// A metric whose oldest unflushed point is in the current or the previous journal segment counts as active,
/// however old the timestamps are, because a relay may be sending the points that it kept during an outage.
const FRESH_SEGMENTS: u32 = 2;

/// The progress of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The next head to visit.
    next: u32,
    /// The journal segment that was written when the sweep began.
    started_in: u32,
    /// The oldest segment needed by a head visited so far.
    oldest: u32,
    /// Whether the sweep has ended and the next one has not begun.
    pub(crate) is_over: bool,
    /// As of the last complete sweep, the shard needs no journal segment before this one.
    pub(crate) needed_from: u32,
}

impl Shard {
    /// Visits the next `heads` heads and adds the flushes they need. `segment` is the current journal segment.
    pub(crate) fn sweep(&mut self, heads: u32, segment: u32, now: i64, flushes: &mut Flushes) {
        let len = self.len() as u32;
        self.sweep.is_over = false;
        for _ in 0..heads {
            if self.sweep.next == 0 {
                (self.sweep.started_in, self.sweep.oldest) = (segment, segment);
            }
            if self.sweep.next >= len {
                self.end_sweep();
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
            } else if self.late.is_in_flight(at) && !self.heads[at].is(mark::DUE) {
                // The metric is flushed as soon as its late points are stored.
                self.heads[at].set(mark::DUE);
                self.due.push(at);
            }
            return;
        }
        // Late points are stored first, so that the state row covers them.
        if !self.may_flush(at) || head.state.has_late() {
            return;
        }
        let layout = &self.layouts[usize::from(head.config)];
        let resolution = i64::from(layout.raw.resolution);
        // Percentiles are computed from raw slots, so the metric is flushed while the store still has them.
        let idle_after = if layout.config.aggregation.needs_all_slots() {
            self.limits.idle_after.min(layout.raw.duration() as i64 / 2)
        } else {
            self.limits.idle_after
        };
        // A head usually covers this many seconds, so a metric with few points must not count as idle earlier.
        let span = i64::from(self.blocks.raw_slots + super::ALLOWANCE) * resolution;
        let is_fresh = head.segment != 0 && segment.saturating_sub(head.segment) < FRESH_SEGMENTS;
        let is_old = head.is(mark::PLACED) && now - i64::from(head.newest) * resolution > idle_after + span;
        let is_idle = is_old && (!is_fresh || layout.config.aggregation.needs_all_slots());
        if is_idle && (!head.is_empty() || head.segment != 0) {
            self.build(at, Extent::All { now }, segment, flushes);
        } else if head.segment != 0 && segment.saturating_sub(head.segment) >= self.limits.checkpoint_segments
        {
            self.build(at, Extent::State, segment, flushes);
        }
    }

    /// Flushes the points that arrived since the last sweep. If a metric has no new points, everything of it
    /// is flushed, so that its last windows close.
    fn visit_at_interval(&mut self, at: u32, segment: u32, now: i64, flushes: &mut Flushes) {
        let head = &self.heads[at];
        let resolution = i64::from(self.layouts[usize::from(head.config)].raw.resolution);
        let is_idle = now / resolution - i64::from(head.newest) > i64::from(2 * super::ALLOWANCE);
        if !head.is(mark::PLACED) {
            if head.segment != 0 {
                self.build(at, Extent::State, segment, flushes);
            }
        } else if is_idle && !head.is_empty() {
            self.build(at, Extent::All { now }, segment, flushes);
        } else if head.is(mark::REWRITE) || head.segment != 0 {
            self.build(at, self.usual_extent(), segment, flushes);
        }
    }

    /// Whether some metric has points that only the journal holds.
    pub(crate) fn has_unflushed(&self) -> bool {
        (0..self.len() as u32).any(|at| self.heads[at].segment != 0)
    }

    fn end_sweep(&mut self) {
        self.sweep.needed_from = self.sweep.oldest.min(self.sweep.started_in);
        self.sweep.next = 0;
        self.sweep.is_over = true;
    }
}

#[cfg(test)]
mod tests {
    use plumbago_model::{MetricConfig, PointBatch};

    use crate::bench::BenchShard;

    #[test]
    fn points_that_a_relay_kept_for_hours_are_not_late_when_they_come_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let config = MetricConfig {
            retention: "60s:7d,1h:1y".parse().unwrap(),
            aggregation: "sum".parse().unwrap(),
            x_files_factor: 0.0,
        };
        let mut shard = BenchShard::new(dir.path(), config).unwrap();
        let now = 1_700_000_000;
        for minute in 0..1000 {
            let mut batch = PointBatch::default();
            for metric in 0..10 {
                batch.push(&format!("a.{metric}"), (now - 60_000 + 60 * minute) as u32, 1.0);
            }
            shard.apply(batch, now);
            shard.sweep(now);
            assert!(shard.has_no_late_points(), "minute {minute}");
        }
    }
}
