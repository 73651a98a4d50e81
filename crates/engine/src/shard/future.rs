//! Points too far ahead of now for their heads, kept until their time comes.
//!
//! They are ordered in two ways, by metric and by release time. So the cost of a flush, a release or a
//! replayed release depends on the points it concerns, and not on the number of other points.

use std::collections::{BTreeMap, BTreeSet};

use plumbago_journal::{JournalWriter, Position};

use super::{ALLOWANCE, ApplyContext, KIND_FUTURE, KIND_RELEASED, KIND_RELEASED_LATE, NUMBER_BITS, Shard};
use crate::shard::head_state::{FlushEvent, mark};
use crate::stats::Reject;

/// Largest number of future points of one shard; further ones are rejected.
pub(crate) const POINTS_MAX: usize = 65_536;

/// A point ahead of now. It is already in the journal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FuturePoint {
    /// Seconds since the epoch.
    pub(crate) timestamp: u32,
    pub(crate) value: f64,
    /// Sequence of its journal record.
    pub(crate) sequence: u64,
}

/// When a point is released (seconds since the epoch), its head, and its position in the order of arrival.
type ReleaseKey = (i64, u32, u64);

/// The future points of a shard.
#[derive(Debug, Default)]
pub(crate) struct FuturePoints {
    /// The points by head, then in order of arrival.
    by_head: BTreeMap<(u32, u64), (i64, FuturePoint)>,
    by_release: BTreeSet<ReleaseKey>,
    arrivals: u64,
    /// The number of entries that calls have visited; tests check the cost of calls with it.
    #[cfg(test)]
    visited: std::sync::atomic::AtomicUsize,
}

impl FuturePoints {
    /// Whether no further point may be accepted.
    pub(crate) fn is_full(&self) -> bool {
        self.by_head.len() >= POINTS_MAX
    }

    /// Whether the head at `at` has a future point.
    pub(crate) fn contains(&self, at: u32) -> bool {
        self.by_head.range((at, 0)..=(at, u64::MAX)).next().is_some()
    }

    /// Keeps a point of the head at `at` until `release` (seconds since the epoch).
    pub(crate) fn insert(&mut self, at: u32, release: i64, point: FuturePoint) {
        self.arrivals += 1;
        self.by_head.insert((at, self.arrivals), (release, point));
        self.by_release.insert((release, at, self.arrivals));
    }

    /// The points of the head at `at` in order of arrival.
    pub(crate) fn of_head(&self, at: u32) -> impl Iterator<Item = &FuturePoint> {
        let points = self.by_head.range((at, 0)..=(at, u64::MAX));
        points.inspect(|_| self.count_visit()).map(|(_, (_, point))| point)
    }

    /// Whether the release time of some point has come.
    pub(crate) fn has_released(&self, now: i64) -> bool {
        self.by_release.first().is_some_and(|(release, ..)| *release <= now)
    }

    /// Takes out the next point whose release time has come, with its head. Points of one head are ordered by release
    /// time, then by arrival.
    pub(crate) fn pop_released(&mut self, now: i64) -> Option<(u32, FuturePoint)> {
        let key = *self.by_release.first().filter(|(release, ..)| *release <= now)?;
        Some((key.1, self.take(key)?))
    }

    /// Takes out the first point with this head, release time and timestamp. Returns `false` if there is
    /// none.
    pub(crate) fn remove(&mut self, at: u32, release: i64, timestamp: u32) -> bool {
        let mut candidates = self.by_release.range((release, at, 0)..=(release, at, u64::MAX)).copied();
        let same = |(_, at, arrival): &ReleaseKey| {
            self.count_visit();
            self.by_head.get(&(*at, *arrival)).is_some_and(|(_, point)| point.timestamp == timestamp)
        };
        let found = candidates.find(same);
        found.is_some_and(|key| self.take(key).is_some())
    }

    /// Drops the points of the head at `at`. Returns how many there were.
    pub(crate) fn discard(&mut self, at: u32) -> u64 {
        self.discard_some(at, |_| true)
    }

    /// Drops the points of the head at `at` for whose timestamp `is_gone` is true. Returns how many there
    /// were.
    pub(crate) fn discard_some(&mut self, at: u32, is_gone: impl Fn(u32) -> bool) -> u64 {
        let points = self.by_head.range((at, 0)..=(at, u64::MAX));
        let doomed = points.filter(|(_, (_, point))| is_gone(point.timestamp));
        let keys: Vec<ReleaseKey> =
            doomed.map(|((at, arrival), (release, _))| (*release, *at, *arrival)).collect();
        keys.into_iter().filter_map(|key| self.take(key)).count() as u64
    }

    fn take(&mut self, key: ReleaseKey) -> Option<FuturePoint> {
        self.count_visit();
        self.by_release.remove(&key);
        self.by_head.remove(&(key.1, key.2)).map(|(_, point)| point)
    }

    #[inline]
    fn count_visit(&self) {
        #[cfg(test)]
        self.visited.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Shard {
    /// Accepts a point that is `ahead` seconds ahead of now, or rejects it if there is no room or it is too far ahead.
    pub(super) fn accept_future(
        &mut self,
        at: u32,
        timestamp: u32,
        value: f64,
        ahead: i64,
        context: &mut ApplyContext<'_>,
    ) {
        if ahead > self.limits.future_max {
            return self.ledger.reject(Reject::Future);
        }
        if self.future.is_full() {
            return self.ledger.reject(Reject::FutureFull);
        }
        let head = &mut self.heads[at];
        self.sequence = context.writer.point(head.number | KIND_FUTURE << NUMBER_BITS, timestamp, value);
        head.state.on_point(FlushEvent::Keep);
        if head.segment == 0 {
            head.segment = context.writer.segment();
        }
        self.keep_future(at, FuturePoint { timestamp, value, sequence: self.sequence });
    }

    /// Keeps a point until its time comes. The metric's state rows contain it too.
    pub(crate) fn keep_future(&mut self, at: u32, point: FuturePoint) {
        self.ledger.held += 1;
        self.heads[at].set(mark::FUTURE);
        self.future.insert(at, self.release_time(at, point.timestamp), point);
    }

    /// The time when the slot of a point is near enough for its head. All points of a slot have the same
    /// release time, so that the last one to arrive is the last one to be applied.
    fn release_time(&self, at: u32, timestamp: u32) -> i64 {
        let raw = self.layouts[usize::from(self.heads[at].config)].raw;
        (i64::from(raw.slot(timestamp)) - i64::from(ALLOWANCE)) * i64::from(raw.resolution)
    }

    /// Moves the points whose time has come into their heads. Stops if the journal fails; the next call
    /// continues.
    pub(crate) fn release_future(&mut self, now: i64, writer: &mut JournalWriter) {
        while self.future.has_released(now) {
            if writer.is_full() && writer.write_out().is_err() {
                // The worker writes the journal every few milliseconds, and reports the error then.
                return;
            }
            self.segment = writer.segment();
            self.check_late_room(|| Position::of_segment(writer.segment()));
            let Some((at, point)) = self.future.pop_released(now) else { return };
            self.forget_released(at);
            let head = &mut self.heads[at];
            let slot = self.layouts[usize::from(head.config)].raw.slot(point.timestamp);
            let waits = self.late.waiting.is_on() && head.is_late(slot);
            let kind = if waits { KIND_RELEASED_LATE } else { KIND_RELEASED };
            // A replay must release the point at this position in the journal, between the points before and
            // after it.
            self.sequence = writer.point(head.number | kind << NUMBER_BITS, point.timestamp, point.value);
            if head.segment == 0 {
                head.segment = self.segment;
            }
            self.put(at, slot, point.value, now);
        }
    }

    /// Takes out the future point that a journal record says was released. Returns `false` if it is not
    /// there, because a state row already contains it as released.
    pub(super) fn replay_release(&mut self, at: u32, timestamp: u32) -> bool {
        let removed = self.future.remove(at, self.release_time(at, timestamp), timestamp);
        if removed {
            self.forget_released(at);
        }
        removed
    }

    fn forget_released(&mut self, at: u32) {
        self.ledger.held -= 1;
        if !self.future.contains(at) {
            self.heads[at].clear(mark::FUTURE);
        }
    }

    /// Timestamps and values of a metric's future points that arrived up to this journal sequence. Its state
    /// row contains these points; later ones are in the journal.
    pub(super) fn future_of(&self, at: u32, sequence: u64) -> Vec<(u32, f64)> {
        if !self.heads[at].is(mark::FUTURE) {
            return Vec::new();
        }
        let covered = self.future.of_head(at).filter(|point| point.sequence <= sequence);
        covered.map(|point| (point.timestamp, point.value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn full() -> FuturePoints {
        let mut points = FuturePoints::default();
        for n in 0..POINTS_MAX as u32 {
            let (at, timestamp) = (n % 1000, 10_000 + n / 1000);
            let point = FuturePoint { timestamp, value: f64::from(n), sequence: u64::from(n) };
            points.insert(at, i64::from(timestamp) - 20, point);
        }
        assert!(points.is_full());
        points
    }

    /// A call visits only the points that it concerns, however many others there are.
    #[test]
    fn the_cost_of_a_call_does_not_depend_on_the_other_points() {
        let points = full();
        for at in 0..1000 {
            let of_head = points.of_head(at).count();
            assert!((65..=66).contains(&of_head), "{of_head}");
        }
        assert_eq!(points.visited.load(Relaxed), POINTS_MAX);

        let mut points = full();
        assert_eq!(points.pop_released(9_979), None);
        assert_eq!(std::iter::from_fn(|| points.pop_released(9_980)).count(), 1000);
        assert_eq!(points.visited.load(Relaxed), 1000);

        let mut points = full();
        for n in 0..POINTS_MAX as u32 {
            let timestamp = 10_000 + n / 1000;
            assert!(points.remove(n % 1000, i64::from(timestamp) - 20, timestamp));
        }
        assert!(points.visited.load(Relaxed) <= 2 * POINTS_MAX);
        assert!(points.by_head.is_empty() && points.by_release.is_empty());
    }

    #[test]
    fn points_come_by_release_time_and_then_by_arrival() {
        let mut points = FuturePoints::default();
        let mut insert = |at, release, value| {
            points.insert(at, release, FuturePoint { timestamp: 100 + release as u32, value, sequence: 1 });
        };
        insert(1, 60, 1.0);
        insert(1, 0, 2.0);
        insert(1, 60, 3.0);
        insert(2, 0, 4.0);
        assert_eq!(points.of_head(1).map(|point| point.value).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert!(!points.remove(1, 60, 1));
        let released: Vec<f64> =
            std::iter::from_fn(|| points.pop_released(60)).map(|(_, point)| point.value).collect();
        assert_eq!(released, [2.0, 4.0, 1.0, 3.0]);
        assert!(!points.contains(1));
    }
}
