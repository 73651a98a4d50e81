//! Segments: the journal is cut by time, so that it can be dropped in pieces.

use std::sync::atomic::{AtomicU64, Ordering};

/// A live segment that holds frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub number: u32,
    /// The smallest sequence number in it.
    pub first_sequence: u64,
    /// Bytes of frames in it. What was there at the start is counted by the replay.
    pub bytes: u64,
}

/// What is known of a live segment.
#[derive(Debug)]
pub(crate) struct Segment {
    first_sequence: AtomicU64,
    bytes: AtomicU64,
}

impl Segment {
    pub(crate) fn new(first_sequence: u64) -> Self {
        Self { first_sequence: AtomicU64::new(first_sequence), bytes: AtomicU64::new(0) }
    }

    /// Counts a frame.
    pub(crate) fn add(&self, first_sequence: u64, bytes: u64) {
        self.first_sequence.fetch_min(first_sequence, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn first_sequence(&self) -> u64 {
        self.first_sequence.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Before a replay counts its frames again.
    pub(crate) fn forget_bytes(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// Turns the wall clock into segment numbers that never go back.
#[derive(Debug)]
pub(crate) struct SegmentClock {
    seconds: i64,
    last: u32,
    /// How far the numbers run ahead of the clock since it was set back.
    ahead: u32,
}

impl SegmentClock {
    pub(crate) fn new(seconds: u64, newest_segment: u32) -> Self {
        Self { seconds: i64::try_from(seconds).unwrap_or(i64::MAX).max(1), last: newest_segment, ahead: 0 }
    }

    /// The segment at `now`. A clock that is set back by more than a segment's length must not keep
    /// one segment open until it has caught up, so the numbers then run ahead of it.
    pub(crate) fn at(&mut self, now: i64) -> u32 {
        let by_clock = u32::try_from(now.div_euclid(self.seconds)).unwrap_or(0);
        let number = by_clock.saturating_add(self.ahead);
        if number.saturating_add(1) < self.last {
            self.ahead = self.last - by_clock;
        }
        self.last = self.last.max(number);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_clock_and_never_go_back() {
        let mut clock = SegmentClock::new(300, 0);
        assert_eq!(clock.at(3000), 10);
        assert_eq!(clock.at(3299), 10);
        assert_eq!(clock.at(3300), 11);
        // A second back over the boundary, and on.
        assert_eq!(clock.at(3299), 11);
        assert_eq!(clock.at(3600), 12);
    }

    #[test]
    fn a_clock_set_far_back_still_turns_segments() {
        let mut clock = SegmentClock::new(300, 5000);
        assert_eq!(clock.at(3000), 5000);
        assert_eq!(clock.at(3299), 5000);
        assert_eq!(clock.at(3300), 5001);
        // And when it is set right again.
        assert_eq!(clock.at(5200 * 300), 10_190);
    }
}
