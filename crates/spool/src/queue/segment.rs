//! Segments: their sums, and which of them are open, pending or retained.

use std::collections::BTreeMap;
use std::time::Instant;

use super::row::Key;

/// The number of the segment of deferred slices. Segments of commits have larger numbers.
pub(super) const DEFERRED: u32 = 0;
/// The numbers of the two segments of deferred slices that have arrived. Their slices are retained like
/// others, with their own timestamps. One segment collects new slices while the other expires.
pub(super) const ARRIVED: [u32; 2] = [u32::MAX - 2, u32::MAX - 1];

/// The content of a segment or of a part of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) bytes: u64,
    pub(super) slices: u64,
    pub(super) rows: u64,
}

impl Sums {
    /// The sums of one slice with a value of this length.
    pub(super) fn of_slice(value_bytes: usize, rows: u32) -> Self {
        Self { bytes: (Key::BYTES + value_bytes) as u64, slices: 1, rows: u64::from(rows) }
    }

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

/// Sums and times of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) sums: Sums,
    /// Timestamps of the oldest and the newest slice, in microseconds since the epoch.
    pub(super) first_us: i64,
    pub(super) last_us: i64,
    /// When the last slice of the segment was acknowledged, in milliseconds of the steady clock; not stored.
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

/// The live segments. The newest is open for commits.
#[derive(Debug)]
pub(super) struct Segments {
    pub(super) all: BTreeMap<u32, Segment>,
    /// The segment [`DEFERRED`].
    pub(super) deferred: Segment,
    pub(super) open: u32,
    /// When the open segment was begun. This determines how long slices linger, so it does not use the wall
    /// clock, which may jump.
    pub(super) opened: Instant,
    /// The segment being sent; all before it are acknowledged.
    pub(super) sending: u32,
    /// The last acknowledged metric of that segment.
    pub(super) sent_id: Option<super::Id>,
    /// The acknowledged part of that segment.
    pub(super) sent: Sums,
    /// The last segment from which the sender has read slices; 0 if this process has read none.
    pub(super) read: u32,
    /// The segments [`ARRIVED`].
    pub(super) arrived: [Segment; 2],
    /// Which of the two collects new slices.
    pub(super) collecting: usize,
}

impl Segments {
    /// The sums of all pending slices, deferred ones included.
    pub(super) fn pending(&self) -> Sums {
        let mut sums = Sums::default();
        for segment in self.all.range(self.sending..).map(|(_, segment)| segment) {
            sums.add(segment.sums);
        }
        sums = sums.minus(self.sent);
        sums.add(self.deferred.sums);
        sums
    }

    /// Size of all slices in bytes: pending, deferred and retained.
    pub(super) fn held_bytes(&self) -> u64 {
        self.all.values().chain([&self.deferred]).chain(&self.arrived).map(|segment| segment.sums.bytes).sum()
    }

    /// The timestamp of the oldest pending slice, in microseconds since the epoch.
    pub(super) fn oldest_us(&self) -> Option<i64> {
        let waiting = self.all.range(self.sending..).map(|(_, segment)| segment).chain([&self.deferred]);
        waiting.filter(|segment| segment.sums.slices > 0).map(|segment| segment.first_us).min()
    }

    /// Marks the segments before `sending` as acknowledged at `now_ms`, unless they were acknowledged before.
    pub(super) fn acknowledge_before(&mut self, sending: u32, now_ms: i64) {
        for segment in self.all.range_mut(..sending).map(|(_, segment)| segment) {
            segment.acknowledged_ms.get_or_insert(now_ms);
        }
    }

    /// The first segment to keep: all before it were acknowledged before the given time and are no longer
    /// needed.
    pub(super) fn keep_from(&self, acknowledged_before_ms: i64, needs: impl Fn(u32) -> bool) -> u32 {
        let expired = |number: u32, segment: &Segment| {
            segment.acknowledged_ms.is_some_and(|at| at < acknowledged_before_ms) && !needs(number)
        };
        let kept =
            self.all.iter().find(|(number, segment)| **number >= self.sending || !expired(**number, segment));
        kept.map_or(self.sending, |(number, _)| *number)
    }

    /// The segments with slices that were, or may have been, acknowledged since a time (microseconds of the
    /// steady clock): the first of these segments, and the one after the last.
    pub(super) fn sent_since(&self, since_us: i64) -> (u32, u32) {
        // The time of the acknowledgement is used, as for retention: rows that were committed long before it,
        // while the server was down, are just as new to the server.
        let is_young =
            |segment: &Segment| segment.acknowledged_ms.is_none_or(|at| at.saturating_mul(1000) >= since_us);
        let first = self.all.iter().find(|(_, segment)| is_young(segment));
        let from = first.map_or(self.sending, |(number, _)| *number).min(self.sending);
        let part_sent = self.sending + u32::from(self.sent_id.is_some());
        (from, part_sent.max(self.read + 1).min(self.open))
    }

    /// The first segment from a number on that is not empty.
    pub(super) fn first_from(&self, number: u32) -> Option<u32> {
        let mut live = self.all.range(number..).filter(|(_, segment)| segment.sums.slices > 0);
        let arrived = || {
            let both = ARRIVED.into_iter().zip(&self.arrived);
            both.filter(|(at, segment)| *at >= number && segment.sums.slices > 0).map(|(at, _)| at).next()
        };
        live.next().map(|(number, _)| *number).or_else(arrived)
    }

    /// Whether slices of a segment are still to be sent for the first time.
    pub(super) fn is_pending(&self, number: u32) -> bool {
        (self.sending..ARRIVED[0]).contains(&number)
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
