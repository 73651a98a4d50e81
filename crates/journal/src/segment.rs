//! Segments: the intervals of time into which the journal is divided.

/// A live segment that holds records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The segment's number: seconds since the epoch divided by `journal.segment`.
    pub number: u32,
    /// The smallest sequence number of its records.
    pub first_sequence: u64,
    /// Size of its records in the files, in bytes.
    pub bytes: u64,
}

/// Computes segment numbers from the wall clock. They never decrease.
#[derive(Debug)]
pub(crate) struct SegmentClock {
    seconds: i64,
    last: u32,
    /// How many segments the numbers are ahead of the clock because it was set back.
    ahead: u32,
}

impl SegmentClock {
    pub(crate) fn new(seconds: u64, newest_segment: u32) -> Self {
        Self { seconds: i64::try_from(seconds).unwrap_or(i64::MAX).max(1), last: newest_segment, ahead: 0 }
    }

    /// The segment at `now`, in seconds since the epoch. If the clock is set back by more than the length of
    /// a segment, the numbers stay ahead of it. Otherwise one segment would stay open until the clock had
    /// caught up.
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
        // The clock goes back by one second, across the boundary, and then forward.
        assert_eq!(clock.at(3299), 11);
        assert_eq!(clock.at(3600), 12);
    }

    #[test]
    fn a_clock_set_far_back_still_turns_segments() {
        let mut clock = SegmentClock::new(300, 5000);
        assert_eq!(clock.at(3000), 5000);
        assert_eq!(clock.at(3299), 5000);
        assert_eq!(clock.at(3300), 5001);
        // The clock is corrected.
        assert_eq!(clock.at(5200 * 300), 10_190);
    }
}
