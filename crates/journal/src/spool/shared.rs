//! What the spool's handles and its background thread share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use fjall::PersistMode;
use plumbago_model::Clock;
use plumbago_telemetry::{Registry, Throttle};

use super::cursor::{Chunk, Position, SpooledSlice};
use super::database::{Commit, Database, Marks};
use super::metrics::Metrics;
use super::row::{self, Key};
use super::segment::{PARKED, Segment, Segments, Sums};
use super::{Id, Slice, SpoolConfig, SpoolError, State};
use crate::{lock, space};

/// A segment holds at most this part of the ceiling: drained segments go as a whole. It should be
/// large, since what waits is gathered by metric inside of a segment.
const SEGMENT_PART: u64 = 8;
const SEGMENT_BYTES_MIN: u64 = 32 << 20;

const REFUSAL_LINE_MS: i64 = 10_000;

/// What the spool holds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SpoolStats {
    /// Bytes that are not acknowledged.
    pub unsent_bytes: u64,
    /// Rows that are not acknowledged.
    pub unsent_rows: u64,
    /// Acknowledged bytes that are kept to be sent again.
    pub retained_bytes: u64,
    /// The ceiling for both.
    pub max_bytes: u64,
    /// Age of the oldest unacknowledged slice.
    pub oldest: Option<Duration>,
    /// Rows that were put aside; they count as unsent.
    pub parked_rows: u64,
    /// The last timestamp that was given.
    pub last_us: i64,
}

/// Locks are taken in the order `commits`, `database`, `segments`.
pub(super) struct Shared {
    pub(super) dir: PathBuf,
    pub(super) config: SpoolConfig,
    pub(super) max_bytes: u64,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    /// The last timestamp. Held during a commit, so that timestamps rise in the order of commits.
    pub(super) commits: Mutex<i64>,
    database: RwLock<Held>,
    pub(super) segments: Mutex<Segments>,
    pub(super) dropped_ms: Mutex<i64>,
    pub(super) trouble: Mutex<Option<String>>,
    pub(super) refusals: Throttle,
    /// Slices are not left to gather any more.
    pub(super) hurries: AtomicBool,
    /// What is retained does not expire: a server is away.
    pub(super) holds: AtomicBool,
}

pub(super) enum Held {
    Open(Database),
    /// fjall has refused a write and takes no more until it is opened again.
    Broken,
    Poisoned(String),
    Closed,
}

impl Held {
    pub(super) fn get(&self) -> Result<&Database, SpoolError> {
        match self {
            Self::Open(database) => Ok(database),
            Self::Broken => {
                Err(SpoolError::unavailable("a write failed and the spool is not open again yet"))
            }
            Self::Poisoned(reason) => Err(SpoolError::Poisoned { reason: reason.clone() }),
            Self::Closed => Err(SpoolError::Closed),
        }
    }
}

impl Shared {
    pub(super) fn open(
        dir: &Path,
        config: SpoolConfig,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, SpoolError> {
        let metrics = Metrics::new(registry);
        let (database, repaired) = Database::open(dir).map_err(SpoolError::Open)?;
        metrics.torn_tails.add(u64::from(repaired.is_some()));
        let marks = database.marks()?;
        let last_us = marks.last_us;
        let max_bytes = config.max_bytes.unwrap_or_else(|| space::size_at(dir).unwrap_or(u64::MAX) / 5);
        metrics.max_bytes.set(max_bytes as f64);
        let segments = recover(&database, marks, clock.now_ms()).map_err(|error| SpoolError::Corrupt {
            reason: format!("failed to note what it holds: {error}"),
        })?;
        let shared = Self {
            dir: dir.to_owned(),
            config,
            max_bytes,
            clock,
            metrics,
            commits: Mutex::new(last_us),
            database: RwLock::new(Held::Open(database)),
            segments: Mutex::new(segments),
            dropped_ms: Mutex::new(i64::MIN),
            trouble: Mutex::new(None),
            refusals: Throttle::new(REFUSAL_LINE_MS),
            hurries: AtomicBool::new(false),
            holds: AtomicBool::new(false),
        };
        shared.show();
        Ok(shared)
    }

    pub(super) fn commit(&self, slices: &[Slice<'_>], states: &[State<'_>]) -> Result<i64, SpoolError> {
        let result = self.try_commit(slices, states);
        match &result {
            Ok(_) => {
                self.clear_trouble();
                // At once, so that a zero means that nothing waits.
                self.metrics.unsent_rows.set(lock(&self.segments).unsent().rows as f64);
            }
            Err(error) => self.note_refusal(error),
        }
        result
    }

    fn try_commit(&self, slices: &[Slice<'_>], states: &[State<'_>]) -> Result<i64, SpoolError> {
        let mut added = Sums { slices: slices.len() as u64, ..Sums::default() };
        for slice in slices {
            added.bytes += (Key::BYTES + row::HEADER_BYTES + slice.bytes.len()) as u64;
            added.rows += u64::from(slice.rows);
        }
        self.check_room(added.bytes)?;
        self.await_disk()?;
        let mut last_us = lock(&self.commits);
        // Also after a failure: what reached the log all the same has a timestamp of its own.
        *last_us = (self.clock.now_ms().saturating_mul(1000)).max(*last_us + 1);
        let timestamp_us = *last_us;
        let (mut number, mut segment) = self.open_segment();
        if self.is_full(&segment) {
            self.cut(number, segment)?;
            (number, segment) = self.open_segment();
        }
        segment.add(added, timestamp_us, timestamp_us);
        let place = |slice: &Slice<'_>| {
            let key = Key { segment: number, id: slice.id, timestamp_us };
            (key, row::value(slice.rows, slice.bytes))
        };
        let slices = slices.iter().map(place).collect();
        let commit = Commit { slices, states, timestamp_us, newest: (number, segment) };
        self.with("commit", |database| database.commit(commit))?;
        lock(&self.segments).all.insert(number, segment);
        self.metrics.committed_rows.add(added.rows);
        Ok(timestamp_us)
    }

    pub(super) fn park(&self, slices: &[(i64, Slice<'_>)]) -> Result<(), SpoolError> {
        let _commits = lock(&self.commits);
        let mut parked = lock(&self.segments).parked;
        let mut rows = Vec::with_capacity(slices.len());
        for (timestamp_us, slice) in slices {
            let value = row::value(slice.rows, slice.bytes);
            let bytes = (Key::BYTES + value.len()) as u64;
            parked.add(Sums { bytes, slices: 1, rows: u64::from(slice.rows) }, *timestamp_us, *timestamp_us);
            rows.push((Key { segment: PARKED, id: slice.id, timestamp_us: *timestamp_us }, Some(value)));
            self.metrics.parked_rows.add(u64::from(slice.rows));
        }
        self.with("put slices aside", |database| database.change(rows, Some(parked)))?;
        lock(&self.segments).parked = parked;
        Ok(())
    }

    pub(super) fn unpark(&self, slices: &[SpooledSlice]) -> Result<(), SpoolError> {
        let _commits = lock(&self.commits);
        let mut parked = lock(&self.segments).parked;
        let key =
            |slice: &SpooledSlice| Key { segment: PARKED, id: slice.id, timestamp_us: slice.timestamp_us };
        for slice in slices {
            let bytes = (Key::BYTES + row::HEADER_BYTES + slice.bytes().len()) as u64;
            parked.sums = parked.sums.minus(Sums { bytes, slices: 1, rows: u64::from(slice.rows) });
        }
        if parked.sums.slices == 0 {
            parked = Segment::default();
        }
        let rows = slices.iter().map(|slice| (key(slice), None)).collect();
        self.with("take slices back", |database| database.change(rows, Some(parked)))?;
        lock(&self.segments).parked = parked;
        Ok(())
    }

    /// Nothing is put aside any more: deletions and replaced slices are not counted one by one.
    pub(super) fn forget_parked(&self) -> Result<(), SpoolError> {
        let _commits = lock(&self.commits);
        if std::mem::take(&mut lock(&self.segments).parked) == Segment::default() {
            return Ok(());
        }
        self.with("note what is put aside", |database| database.change(Vec::new(), Some(Segment::default())))
    }

    pub(super) fn last_us_of(&self, number: u32) -> i64 {
        lock(&self.segments).all.get(&number).map_or(0, |segment| segment.last_us)
    }

    /// The open segment. Only the holder of `commits` changes it.
    fn open_segment(&self) -> (u32, Segment) {
        let segments = lock(&self.segments);
        (segments.open, segments.all.get(&segments.open).copied().unwrap_or_default())
    }

    pub(super) fn sync(&self) -> Result<(), SpoolError> {
        let result = self.read().get()?.persist(PersistMode::SyncData);
        match result {
            Ok(()) => Ok(()),
            Err(error @ fjall::Error::Poisoned) => Err(self.break_down("sync", &error)),
            Err(error) => Err(self.poison(&error)),
        }
    }

    pub(super) fn scan_states(&self, visit: &mut dyn FnMut(Id, &[u8])) -> Result<(), SpoolError> {
        let damaged = self.read().get()?.visit_states(visit);
        self.metrics.damaged.add(damaged);
        Ok(())
    }

    /// Where a sender goes on.
    pub(super) fn start_of(&self, after: Option<Position>) -> Position {
        let segments = lock(&self.segments);
        match after {
            Some(position) if position.epoch == segments.epoch => position,
            _ => Position { epoch: segments.epoch, segment: segments.sending, id: segments.sent_id },
        }
    }

    /// True when a segment is closed and may be sent. The open one is cut for that, once its slices
    /// had time to gather or it is full.
    pub(super) fn await_segment(&self, number: u32) -> Result<bool, SpoolError> {
        let last_us = lock(&self.commits);
        let (open, segment) = self.open_segment();
        if number < open {
            return Ok(true);
        }
        let gathered = lock(&self.segments).opened.elapsed();
        let hurries = self.hurries.load(Ordering::Relaxed);
        let gather = if hurries { Duration::ZERO } else { self.config.gather };
        if segment.sums.slices == 0 || gathered < gather && !self.is_full(&segment) {
            return Ok(false);
        }
        self.cut(open, segment)?;
        drop(last_us);
        self.sync()?;
        Ok(true)
    }

    /// Ends the open segment. The caller holds `commits`.
    fn cut(&self, number: u32, segment: Segment) -> Result<(), SpoolError> {
        self.with("cut a segment", |database| database.mark_closed(number, segment))?;
        let mut segments = lock(&self.segments);
        segments.open = number + 1;
        segments.opened_ms = self.clock.now_ms();
        segments.opened = Instant::now();
        Ok(())
    }

    fn is_full(&self, segment: &Segment) -> bool {
        segment.sums.bytes >= (self.max_bytes / SEGMENT_PART).max(SEGMENT_BYTES_MIN)
    }

    pub(super) fn acknowledge(&self, chunk: &Chunk) -> Result<bool, SpoolError> {
        {
            let mut segments = lock(&self.segments);
            if chunk.end.epoch != segments.epoch {
                return Ok(false);
            }
            segments.sent.add(chunk.sums);
        }
        self.pass(chunk.end)?;
        Ok(true)
    }

    /// Moves the cursor. The position is one that [`Shared::next_chunk`] gave, so never behind it.
    pub(super) fn pass(&self, at: Position) -> Result<(), SpoolError> {
        {
            let mut segments = lock(&self.segments);
            let back = (at.segment, at.id) < (segments.sending, segments.sent_id);
            if at.epoch != segments.epoch || back {
                return Ok(());
            }
            if at.segment > segments.sending {
                segments.sending = at.segment;
                segments.sent = Sums::default();
                segments.acknowledge_before(at.segment, self.clock.now_ms());
            }
            segments.sent_id = at.id;
        }
        self.with("acknowledge", |database| database.mark_cursor(at.segment, at.id))
    }

    pub(super) fn replay_since(&self, since_us: i64) -> Result<u64, SpoolError> {
        let (first, bytes) = {
            let mut segments = lock(&self.segments);
            // By the time of the acknowledgement, as they are retained: what was committed long before
            // it, while the server was away, is as young for the server.
            let is_young = |segment: &Segment| {
                segment.acknowledged_ms.is_none_or(|at| at.saturating_mul(1000) >= since_us)
            };
            let wanted = segments.all.iter().find(|(_, segment)| is_young(segment));
            let first = wanted.map_or(segments.sending, |(number, _)| *number).min(segments.sending);
            let before = segments.unsent().bytes;
            segments.epoch += 1;
            segments.sending = first;
            segments.sent_id = None;
            segments.sent = Sums::default();
            segments.all.range_mut(first..).for_each(|(_, segment)| segment.acknowledged_ms = None);
            (first, segments.unsent().bytes.saturating_sub(before))
        };
        self.with("send again", |database| database.mark_cursor(first, None))?;
        self.show();
        tracing::info!(bytes, "what was acknowledged lately is sent again");
        Ok(bytes)
    }

    pub(super) fn readable_segments(&self, acknowledged_since_ms: i64) -> Vec<u32> {
        let segments = lock(&self.segments);
        let readable = |segment: &Segment| {
            segment.sums.slices > 0 && segment.acknowledged_ms.is_none_or(|at| at >= acknowledged_since_ms)
        };
        let parked = (segments.parked.sums.slices > 0).then_some(PARKED);
        let all = segments.all.iter().filter(|(_, segment)| readable(segment)).map(|(number, _)| *number);
        parked.into_iter().chain(all).collect()
    }

    /// [`Database::visit_slices`], damage counted.
    pub(super) fn visit(
        &self,
        from: Key,
        to: Key,
        visit: &mut dyn FnMut(Key, fjall::Slice) -> bool,
    ) -> Result<(), SpoolError> {
        let damaged = self.read().get()?.visit_slices(from, to, visit);
        self.metrics.damaged.add(damaged);
        Ok(())
    }

    pub(super) fn report_damage(&self, key: &Key, what: &str) {
        self.metrics.damaged.add(1);
        tracing::error!(
            segment = key.segment,
            timestamp_us = key.timestamp_us,
            what,
            "damaged slice skipped"
        );
    }

    pub(super) fn hold_commits(&self) -> MutexGuard<'_, i64> {
        lock(&self.commits)
    }

    pub(super) fn replace(&self, changes: Vec<(Key, Option<Vec<u8>>)>) -> Result<(), SpoolError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.with("change slices", |database| database.change(changes, None))
    }

    pub(super) fn stats(&self) -> SpoolStats {
        let last_us = *lock(&self.commits);
        let segments = lock(&self.segments);
        let unsent = segments.unsent();
        let age_us = |oldest: i64| self.clock.now_ms().saturating_mul(1000).saturating_sub(oldest).max(0);
        SpoolStats {
            unsent_bytes: unsent.bytes,
            unsent_rows: unsent.rows,
            retained_bytes: segments.held_bytes() - unsent.bytes,
            max_bytes: self.max_bytes,
            oldest: segments.oldest_us().map(|oldest| Duration::from_micros(age_us(oldest) as u64)),
            parked_rows: segments.parked.sums.rows,
            last_us,
        }
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        space::used_by(&self.dir)
    }

    pub(super) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    pub(super) fn close(&self) {
        *self.write() = Held::Closed;
    }

    /// Does something with the database. After a failure fjall takes no more, so the database is let
    /// go then.
    pub(super) fn with<T>(
        &self,
        operation: &str,
        act: impl FnOnce(&Database) -> fjall::Result<T>,
    ) -> Result<T, SpoolError> {
        let result = act(self.read().get()?);
        result.map_err(|error| self.break_down(operation, &error))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.database.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a start finds. The segment that was open is closed, whether its slices were sent or not.
fn recover(database: &Database, marks: Marks, now_ms: i64) -> fjall::Result<Segments> {
    let mut all = marks.closed.clone();
    all.retain(|number, _| *number >= marks.live_from);
    let (newest, segment) = marks.newest;
    if segment.sums.slices > 0 && newest >= marks.live_from && !all.contains_key(&newest) {
        database.mark_closed(newest, segment)?;
        all.insert(newest, segment);
    }
    let (sending, sent_id) = marks.cursor;
    let last = all.keys().next_back().map_or(0, |last| last + 1);
    let open = last.max(sending).max(marks.live_from).max(newest).max(PARKED + 1);
    let mut segments = Segments {
        all,
        parked: marks.parked,
        open,
        opened_ms: now_ms,
        opened: Instant::now(),
        sending: sending.max(marks.live_from).max(PARKED + 1),
        sent_id,
        sent: Sums::default(),
        epoch: 0,
    };
    segments.acknowledge_before(segments.sending, now_ms);
    Ok(segments)
}
