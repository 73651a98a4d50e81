//! Segments: the journal is cut by time, so that it can be dropped in pieces.

use std::sync::atomic::{AtomicU64, Ordering};

use fjall::{AbstractTree, Keyspace};

use crate::database::sequence_of;

const PREFIX: &str = "segment-";

const MEMTABLE_BYTES: u64 = 8 << 20;
/// What fjall needs for a row beside its value, roughly.
const ROW_BYTES: u64 = 64;
/// fjall's own limits are 4 and 30.
const SEALED_MEMTABLES_MAX: usize = 3;
const RUNS_MAX: usize = 28;

/// A live segment that holds frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub number: u32,
    /// The smallest sequence number in it.
    pub first_sequence: u64,
    /// Bytes of frames in it. Before the replay only those that are in tables already.
    pub bytes: u64,
}

/// A segment's keyspace and what is known of it.
pub(crate) struct Segment {
    pub(crate) keyspace: Keyspace,
    first_sequence: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Bytes of frames in the active memtable.
    unflushed: AtomicU64,
}

impl Segment {
    pub(crate) fn open(keyspace: Keyspace) -> Self {
        // Where the first frame cannot be read, any frame may be the first: replay tells.
        let first = keyspace.first_key_value().map_or(u64::MAX, |row| sequence_of(row).unwrap_or(0));
        let bytes = AtomicU64::new(keyspace.disk_space());
        let unflushed = AtomicU64::new(keyspace.tree.active_memtable().size());
        Self { keyspace, first_sequence: AtomicU64::new(first), bytes, unflushed }
    }

    /// Inserts a frame, and lets the memtable go to disk when it is full.
    ///
    /// fjall would see to that itself, but it asks its worker once more for each insert into a full
    /// memtable. A thousand of these fill the worker's queue, and as the worker waits for room in
    /// it while it turns the memtable, nothing is flushed any more.
    pub(crate) fn insert(&self, key: &[u8; 8], frame: &[u8]) -> fjall::Result<()> {
        self.keyspace.insert(key.as_slice(), frame)?;
        let bytes = frame.len() as u64;
        self.first_sequence.fetch_min(u64::from_be_bytes(*key), Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let held = self.unflushed.fetch_add(bytes + ROW_BYTES, Ordering::Relaxed) + bytes + ROW_BYTES;
        if held >= MEMTABLE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Lets what is in memory go to disk, in the background.
    pub(crate) fn flush(&self) -> fjall::Result<()> {
        if self.unflushed.swap(0, Ordering::Relaxed) > 0 {
            self.keyspace.rotate_memtable()?;
        }
        Ok(())
    }

    /// True while fjall would make a writer wait inside of an insert; for ever if its worker has
    /// died meanwhile, so it must not come to that.
    pub(crate) fn is_stalled(&self) -> bool {
        self.keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX
            || self.keyspace.tree.l0_run_count() >= RUNS_MAX
    }

    /// `None` while it is empty.
    pub(crate) fn first_sequence(&self) -> Option<u64> {
        let first = self.first_sequence.load(Ordering::Relaxed);
        (first != u64::MAX).then_some(first)
    }
}

pub(crate) fn name_of(number: u32) -> String {
    format!("{PREFIX}{number:010}")
}

pub(crate) fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.parse().ok()
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
    pub(crate) fn new(seconds: u64, newest_segment: Option<u32>) -> Self {
        Self {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX).max(1),
            last: newest_segment.unwrap_or(0),
            ahead: 0,
        }
    }

    /// The segment at `now`. A clock that is set back by more than a segment's length must not keep
    /// one segment open until it has caught up, so the numbers then run ahead of it.
    pub(crate) fn at(&mut self, now: i64) -> u32 {
        let by_clock = self.by_clock(now);
        let number = by_clock.saturating_add(self.ahead);
        if number.saturating_add(1) < self.last {
            self.ahead = self.last - by_clock;
        }
        self.last = self.last.max(number);
        self.last
    }

    /// The segment that follows, when it is due within the last tenth of the present one.
    pub(crate) fn soon(&self, now: i64) -> Option<u32> {
        let number = self.by_clock(now.saturating_add(self.seconds / 10)).saturating_add(self.ahead);
        (number > self.last).then(|| self.last.saturating_add(1))
    }

    fn by_clock(&self, now: i64) -> u32 {
        u32::try_from(now.div_euclid(self.seconds)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_like_numbers() {
        assert_eq!(name_of(42), "segment-0000000042");
        assert_eq!(number_of(&name_of(u32::MAX)), Some(u32::MAX));
        assert_eq!(number_of("format"), None);
        assert!(name_of(9) < name_of(10));
    }

    #[test]
    fn numbers_follow_the_clock_and_never_go_back() {
        let mut clock = SegmentClock::new(300, None);
        assert_eq!(clock.at(3000), 10);
        assert_eq!(clock.at(3299), 10);
        assert_eq!(clock.at(3300), 11);
        // A second back over the boundary, and on.
        assert_eq!(clock.at(3299), 11);
        assert_eq!(clock.at(3600), 12);
        assert_eq!(clock.soon(3869), None);
        assert_eq!(clock.soon(3870), Some(13));
    }

    #[test]
    fn a_clock_set_far_back_still_turns_segments() {
        let mut clock = SegmentClock::new(300, Some(5000));
        assert_eq!(clock.at(3000), 5000);
        assert_eq!(clock.at(3299), 5000);
        assert_eq!(clock.at(3300), 5001);
        // And when it is set right again.
        assert_eq!(clock.at(5200 * 300), 10_190);
    }
}
