//! Segments: what is known of each, and which of them are open, waiting and retained.

use std::collections::BTreeMap;
use std::time::Instant;

/// The segment of what was put aside; those of commits begin behind it.
pub(super) const PARKED: u32 = 0;

/// What a segment, or a part of one, holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) bytes: u64,
    pub(super) slices: u64,
    pub(super) rows: u64,
}

impl Sums {
    pub(super) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.slices += other.slices;
        self.rows += other.rows;
    }

    pub(super) fn minus(&self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            slices: self.slices.saturating_sub(other.slices),
            rows: self.rows.saturating_sub(other.rows),
        }
    }
}

/// One segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) sums: Sums,
    /// Timestamps of its oldest and its newest slice, microseconds.
    pub(super) first_us: i64,
    pub(super) last_us: i64,
    /// When all of it was acknowledged, milliseconds; kept in memory only.
    pub(super) acknowledged_ms: Option<i64>,
}

impl Segment {
    pub(super) const BYTES: usize = 40;

    pub(super) fn add(&mut self, sums: Sums, oldest_us: i64, newest_us: i64) {
        if sums.slices > 0 {
            self.first_us = if self.sums.slices == 0 { oldest_us } else { self.first_us.min(oldest_us) };
            self.last_us = self.last_us.max(newest_us);
        }
        self.sums.add(sums);
    }

    pub(super) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let numbers =
            [self.sums.bytes, self.sums.slices, self.sums.rows, self.first_us as u64, self.last_us as u64];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let mut numbers = bytes.chunks_exact(8).map(|chunk| chunk.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || numbers.next().unwrap_or(0);
        Some(Self {
            sums: Sums { bytes: next(), slices: next(), rows: next() },
            first_us: next() as i64,
            last_us: next() as i64,
            acknowledged_ms: None,
        })
    }
}

/// The live segments, oldest first; the newest one is open for commits.
#[derive(Debug)]
pub(super) struct Segments {
    pub(super) all: BTreeMap<u32, Segment>,
    /// The one of [`PARKED`].
    pub(super) parked: Segment,
    pub(super) open: u32,
    /// When the open one was begun, milliseconds.
    pub(super) opened_ms: i64,
    /// The same by the machine's own clock: how long slices gather has nothing to do with the time that
    /// points have.
    pub(super) opened: Instant,
    /// The segment that is being sent; those before it are acknowledged.
    pub(super) sending: u32,
    /// Up to which metric of it.
    pub(super) sent_id: Option<super::Id>,
    /// What was acknowledged of it.
    pub(super) sent: Sums,
    /// Changes when the sender has to start anew.
    pub(super) epoch: u64,
}

impl Segments {
    /// What waits for its acknowledgement.
    pub(super) fn unsent(&self) -> Sums {
        let mut sums = Sums::default();
        for segment in self.all.range(self.sending..).map(|(_, segment)| segment) {
            sums.add(segment.sums);
        }
        sums = sums.minus(self.sent);
        sums.add(self.parked.sums);
        sums
    }

    /// Everything, what is retained included.
    pub(super) fn held_bytes(&self) -> u64 {
        self.all.values().chain([&self.parked]).map(|segment| segment.sums.bytes).sum()
    }

    /// The timestamp of the oldest slice that waits.
    pub(super) fn oldest_us(&self) -> Option<i64> {
        let waiting = self.all.range(self.sending..).map(|(_, segment)| segment).chain([&self.parked]);
        waiting.filter(|segment| segment.sums.slices > 0).map(|segment| segment.first_us).min()
    }

    /// Those before the one that is sent now are acknowledged; notes since when.
    pub(super) fn acknowledge_before(&mut self, sending: u32, now_ms: i64) {
        for segment in self.all.range_mut(..sending).map(|(_, segment)| segment) {
            segment.acknowledged_ms.get_or_insert(now_ms);
        }
    }

    /// The first segment that must stay: all before it are acknowledged and were so for long enough.
    pub(super) fn keep_from(&self, acknowledged_before_ms: i64) -> u32 {
        let expired =
            |segment: &Segment| segment.acknowledged_ms.is_some_and(|at| at < acknowledged_before_ms);
        let kept = self.all.iter().find(|(number, segment)| **number >= self.sending || !expired(segment));
        kept.map_or(self.sending, |(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_survives_its_round_trip() {
        let mut segment = Segment::default();
        segment.add(Sums { bytes: 10, slices: 2, rows: 3 }, 7, 7);
        segment.add(Sums { bytes: 1 << 40, slices: 1, rows: 1 }, 5, 9);
        segment.add(Sums::default(), 0, 0);
        assert_eq!((segment.first_us, segment.last_us, segment.sums.rows), (5, 9, 4));
        assert_eq!(Segment::read(&segment.bytes()), Some(segment));
        assert_eq!(Segment::read(&segment.bytes()[1..]), None);
    }
}
