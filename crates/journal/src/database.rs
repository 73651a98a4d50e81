//! The fjall database underneath: its two keyspaces, and what its errors mean.
//!
//! `frames` holds the frames of all segments in the order of segments; `marks` says from which
//! segment on they count. Not a keyspace per segment: fjall 3.1 keeps every table of its own list of
//! keyspaces that it ever replaced, which costs 1 GB after 1000 creations and deletions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fjall::{AbstractTree, Guard, Iter, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::JournalError;
use crate::frame::{Key, RECORDS_MAX};
use crate::open::rows_in_order;
use crate::repair::Repair;
use crate::segment::Segment;

/// Replay reads every block once, so a cache would only cost memory.
const CACHE_BYTES: u64 = 1 << 20;
const MEMTABLE_BYTES: u64 = 8 << 20;
/// What fjall needs for a row beside its value, roughly.
const ROW_BYTES: u64 = 64;

/// fjall makes writers wait inside of an insert at 4 unflushed memtables and at 30 runs of tables;
/// for ever if its worker has died meanwhile, so it must not come to that.
const SEALED_MEMTABLES_MAX: usize = 3;
const RUNS_MAX: usize = 28;

/// Skipped when the newest frame cannot be read, so that no number is given twice.
const UNKNOWN_NUMBERS: u64 = 1 << 40;

const LIVE_FROM: &str = "live-from";

/// An open database and its live segments.
pub(crate) struct Database {
    fjall: fjall::Database,
    frames: Keyspace,
    marks: Keyspace,
    segments: BTreeMap<u32, Segment>,
    /// Frames of older segments are dropped, even where they are still to be seen.
    live_from: u32,
    /// Bytes in the active memtable of `frames`.
    unflushed: AtomicU64,
    /// True while there may be tables of dropped segments.
    leftovers: AtomicBool,
}

impl Database {
    /// Opens or creates the database in `path`; says so when a torn tail was cut for that.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<Repair>), JournalError> {
        crate::open::open(path, crate::format::JOURNAL, CACHE_BYTES, Self::with)
    }

    fn with(fjall: fjall::Database) -> fjall::Result<Self> {
        let frames = fjall.keyspace("frames", rows_in_order)?;
        let marks = fjall.keyspace("marks", KeyspaceCreateOptions::default)?;
        let mark = marks.get(LIVE_FROM)?;
        let live_from = mark.and_then(|mark| mark[..].try_into().ok()).map_or(0, u32::from_be_bytes);
        let unflushed = AtomicU64::new(frames.tree.active_memtable().size());
        let leftovers = AtomicBool::new(live_from > 0);
        let segments = BTreeMap::new();
        let mut database = Self { fjall, frames, marks, segments, live_from, unflushed, leftovers };
        database.find_segments();
        Ok(database)
    }

    fn find_segments(&mut self) {
        let mut from = Key::new(self.live_from, 0);
        while let Some(key) = self.first_key(from) {
            self.segments.insert(key.segment, Segment::new(key.first_sequence));
            let Some(next) = key.segment.checked_add(1) else { return };
            from = Key::new(next, 0);
        }
    }

    /// The first key from `from` on that can be read.
    fn first_key(&self, from: Key) -> Option<Key> {
        match self.frames.range(from.bytes()..).next().map(Guard::key) {
            None => None,
            Some(Ok(key)) => Key::read(&key),
            Some(Err(error)) => {
                tracing::error!(?from, %error, "damage in the journal");
                let behind = self.first_readable(from, Key::new(u32::MAX, u64::MAX))?;
                self.frames.range(behind.bytes()..).next()?.key().ok().and_then(|key| Key::read(&key))
            }
        }
    }

    /// Where reading can go on behind a damaged block that blocks it from `from`. fjall's iterators
    /// end at such a block; where it ends can only be tried out. `None` when that is not before `to`.
    pub(crate) fn first_readable(&self, from: Key, to: Key) -> Option<Key> {
        let blocked = |at: u128| {
            let rest = self.frames.range(Key::from_number(at).bytes()..=to.bytes()).next();
            matches!(rest.map(Guard::key), Some(Err(_)))
        };
        first_open(from.number(), to.number(), blocked).map(Key::from_number)
    }

    pub(crate) fn segments(&self) -> &BTreeMap<u32, Segment> {
        &self.segments
    }

    /// The newest number that any segment had.
    pub(crate) fn newest_segment(&self) -> u32 {
        self.segments.keys().next_back().copied().unwrap_or(0).max(self.live_from)
    }

    /// Bytes of frames in all segments.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.segments.values().map(Segment::bytes).sum()
    }

    /// The last number that any frame may have used.
    pub(crate) fn last_sequence(&self) -> u64 {
        let mut last = 0;
        let mut unknown = 0;
        for (number, segment) in &self.segments {
            match self.rows(Key::all_of(*number)).next_back().map(Guard::key) {
                Some(Ok(key)) => last = last.max(Key::read(&key).map_or(0, |key| key.first_sequence)),
                Some(Err(error)) => {
                    tracing::error!(segment = number, %error, "the end of a journal segment cannot be read");
                    last = last.max(segment.first_sequence());
                    unknown = UNKNOWN_NUMBERS;
                }
                None => {}
            }
        }
        last.saturating_add(RECORDS_MAX as u64 - 1).saturating_add(unknown)
    }

    pub(crate) fn rows(&self, keys: RangeInclusive<Key>) -> Iter {
        self.frames.range(keys.start().bytes()..=keys.end().bytes())
    }

    /// Makes the list know a segment. One that is dropped already gives way to the first live one.
    pub(crate) fn add_segment(&mut self, number: u32, first_sequence: u64) {
        self.segments.entry(number.max(self.live_from)).or_insert_with(|| Segment::new(first_sequence));
    }

    /// Inserts a frame; false when its segment is not in the list yet.
    pub(crate) fn insert(&self, segment: u32, first_sequence: u64, frame: &[u8]) -> fjall::Result<bool> {
        let number = segment.max(self.live_from);
        let Some(segment) = self.segments.get(&number) else { return Ok(false) };
        self.frames.insert(Key::new(number, first_sequence).bytes(), frame)?;
        let bytes = frame.len() as u64;
        segment.add(first_sequence, bytes);
        self.turn_full_memtable(bytes + ROW_BYTES)?;
        Ok(true)
    }

    /// Lets the memtable go to disk when it is full.
    ///
    /// fjall would see to that itself, but it asks its worker once more for each insert into a full
    /// memtable. A thousand of these fill the worker's queue, and as the worker waits for room in
    /// it while it turns the memtable, nothing is flushed any more.
    fn turn_full_memtable(&self, added: u64) -> fjall::Result<()> {
        let held = self.unflushed.fetch_add(added, Ordering::Relaxed) + added;
        let full = held >= MEMTABLE_BYTES;
        if full && self.unflushed.compare_exchange(held, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.frames.rotate_memtable()?;
        }
        Ok(())
    }

    /// True while fjall would make a writer wait.
    pub(crate) fn is_stalled(&self) -> bool {
        self.frames.sealed_memtable_count() >= SEALED_MEMTABLES_MAX
            || self.frames.tree.l0_run_count() >= RUNS_MAX
    }

    /// Takes the segments before `number` from the list and returns how many there were.
    pub(crate) fn forget_before(&mut self, number: u32) -> usize {
        let kept = self.segments.split_off(&number);
        let forgotten = std::mem::replace(&mut self.segments, kept);
        if !forgotten.is_empty() {
            self.live_from = self.live_from.max(number);
            self.leftovers.store(true, Ordering::Relaxed);
        }
        forgotten.len()
    }

    /// True when [`Database::drop_forgotten`] has work, perhaps what failed before a restart.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.leftovers.load(Ordering::Relaxed)
    }

    /// Notes what was forgotten. To be synced before [`Database::drop_forgotten`], which drops whole
    /// tables and so leaves parts of segments that must not be taken for live.
    pub(crate) fn mark_forgotten(&self) -> fjall::Result<()> {
        self.marks.insert(LIVE_FROM, self.live_from.to_be_bytes())
    }

    /// Drops the tables that hold nothing live.
    pub(crate) fn drop_forgotten(&self) -> fjall::Result<()> {
        self.frames.tree.drop_range(..Key::new(self.live_from, 0).bytes())?;
        // An unflushed mark would hold fjall's log. Turning a memtable also removes dropped files.
        self.marks.rotate_memtable()?;
        self.leftovers.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn persist(&self, mode: PersistMode) -> fjall::Result<()> {
        self.fjall.persist(mode)
    }
}

/// The first place behind `from` that is not blocked, given that blocked places are a stretch that
/// begins at `from`; `None` when it reaches up to `to`.
pub(crate) fn first_open(from: u128, to: u128, blocked: impl Fn(u128) -> bool) -> Option<u128> {
    let mut low = from;
    let mut step = 1;
    while blocked((low + step).min(to)) {
        low += step;
        if low >= to {
            return None;
        }
        step *= 2;
    }
    let mut high = (low + step).min(to);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if blocked(middle) { low = middle } else { high = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many small frames at full speed: fjall's worker must not lock itself up.
    #[test]
    fn memtables_go_to_disk_under_a_flood() {
        let dir = tempfile::tempdir().unwrap();
        let (mut database, _) = Database::open(dir.path()).unwrap();
        let next = AtomicU64::new(0);
        let (frames, frame) = (600_000, [7; 200]);
        database.add_segment(1, 0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= frames {
                            return;
                        }
                        while database.is_stalled() {
                            std::thread::yield_now();
                        }
                        assert!(database.insert(1, number, &frame).unwrap());
                    }
                });
            }
        });
        database.frames.rotate_memtable_and_wait().unwrap();
        assert!(database.frames.disk_space() > frames * 200);
        assert_eq!(database.rows(Key::all_of(1)).count() as u64, frames);
    }

    /// Frames that are still to be seen after their segment was dropped do not count, and a frame for
    /// a dropped segment goes to the first live one.
    #[test]
    fn what_was_dropped_does_not_come_back() {
        let dir = tempfile::tempdir().unwrap();
        {
            let (mut database, _) = Database::open(dir.path()).unwrap();
            for number in 1..=4 {
                database.add_segment(number, u64::from(number) * 10);
                assert!(database.insert(number, u64::from(number) * 10, b"frame").unwrap());
            }
            assert_eq!(database.forget_before(3), 2);
            database.mark_forgotten().unwrap();
            database.drop_forgotten().unwrap();
            assert!(database.insert(1, 99, b"late").unwrap());
        }
        let (database, _) = Database::open(dir.path()).unwrap();
        assert_eq!(database.segments().keys().copied().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(database.rows(Key::all_of(3)).count(), 2);
        assert!(database.last_sequence() >= 99);
    }
}
