//! State shared by the handles of a spool and its background thread.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fjall::PersistMode;
use plumbago_model::Clock;
use plumbago_telemetry::{Registry, Throttle};

use super::chunk::{Chunk, Position};
use super::database::{self, Commit, Database, Marks};
use super::laps::Resend;
use super::metrics::Metrics;
use super::row::{self, Key};
use super::segment::{ARRIVED, DEFERRED, Segment, Segments, Sums};
use super::{Id, Slice, SpoolConfig, State, lock};
use crate::SpoolError;
use plumbago_fjall_host::{Contents, HeldFile, Host, HostError, space};

/// One segment takes at most this fraction of the limit: an eighth. Not more, because segments are dropped as
/// a whole. Not less, because pending rows are collected by metric only within a segment.
const SEGMENT_PART: u64 = 8;
const SEGMENT_BYTES_MIN: u64 = 32 << 20;

const REFUSAL_LINE_MS: i64 = 10_000;

/// The content of the spool.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SpoolStats {
    /// Size of pending slices, in bytes.
    pub pending_bytes: u64,
    /// Number of rows that the remote store has not acknowledged.
    pub pending_rows: u64,
    /// Size of acknowledged slices that are kept to be sent again, in bytes.
    pub retained_bytes: u64,
    /// Largest sum of pending and retained bytes.
    pub max_bytes: u64,
    /// Age of the oldest pending slice.
    pub oldest: Option<Duration>,
    /// Deferred rows. They count as pending.
    pub deferred_rows: u64,
    /// Size of acknowledged slices that are being sent again, in bytes.
    pub resend_bytes: u64,
    /// The last timestamp given, in microseconds since the epoch.
    pub last_us: i64,
}

/// Locks are taken in the order `commits`, `resend`, `host`, `segments`.
pub(super) struct Shared {
    pub(super) dir: PathBuf,
    pub(super) config: SpoolConfig,
    pub(super) max_bytes: u64,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    /// The last timestamp. Held during a commit, so that timestamps rise in the order of commits.
    pub(super) commits: Mutex<i64>,
    pub(super) host: Host<Database>,
    pub(super) segments: Mutex<Segments>,
    /// The state of sending rows again.
    pub(super) resend: Mutex<Resend>,
    /// When expired slices were last dropped, in milliseconds of the steady clock.
    pub(super) dropped_ms: Mutex<i64>,
    pub(super) trouble: Mutex<Option<String>>,
    pub(super) refusals: Throttle,
    /// Whether new slices are sent at once instead of waiting for more.
    pub(super) hurries: AtomicBool,
    /// The time, in milliseconds of the steady clock, up to which no server is known to have lost rows.
    /// Retained slices expire as if this were the current time.
    pub(super) released_ms: AtomicI64,
    /// Whether the servers keep a commit log.
    pub(super) is_durable: AtomicBool,
    /// How far the clock is behind the servers', in milliseconds.
    pub(super) lag_ms: AtomicI64,
}

impl Shared {
    pub(super) fn open(
        dir: &Path,
        config: SpoolConfig,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, SpoolError> {
        let metrics = Metrics::new(registry);
        let host = Host::new(database::settings(dir, config.memtable_bytes), "plumbago_spool", registry);
        let (marks, database) = open(&host, config.memtable_bytes)?;
        let last_us = marks.last_us;
        let max_bytes = config.max_bytes.unwrap_or_else(|| space::size_at(dir).unwrap_or(u64::MAX) / 5);
        metrics.max_bytes.set(max_bytes as f64);
        let resend = marks.resend.clone();
        // A start writes here, so a full disk may be the cause of a failure.
        let segments = recover(&database, marks, clock.steady_ms())
            .map_err(|error| SpoolError::Open(HostError::opening(dir, error)))?;
        let shared = Self {
            dir: dir.to_owned(),
            config,
            max_bytes,
            clock,
            metrics,
            commits: Mutex::new(last_us),
            host,
            segments: Mutex::new(segments),
            resend: Mutex::new(resend),
            dropped_ms: Mutex::new(i64::MIN),
            trouble: Mutex::new(None),
            refusals: Throttle::new(REFUSAL_LINE_MS),
            hurries: AtomicBool::new(false),
            released_ms: AtomicI64::new(i64::MIN),
            is_durable: AtomicBool::new(false),
            lag_ms: AtomicI64::new(0),
        };
        shared.show();
        Ok(shared)
    }

    pub(super) fn commit(&self, slices: &[Slice<'_>], states: &[State<'_>]) -> Result<i64, SpoolError> {
        let result = self.try_commit(slices, states);
        match &result {
            Ok(_) => {
                self.clear_trouble();
                // Update the gauge at once: if it is 0, nothing may be pending.
                self.metrics.pending_rows.set(lock(&self.segments).pending().rows as f64);
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
        // Raised even if the commit fails: it may have reached the log, with this timestamp.
        *last_us = self.now_us().max(*last_us + 1);
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
        self.host.committed(u64::try_from(timestamp_us).unwrap_or(0));
        lock(&self.segments).all.insert(number, segment);
        self.metrics.committed_rows.add(added.rows);
        Ok(timestamp_us)
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
        let synced = self.host.get().and_then(|database| self.host.sync(&database, PersistMode::SyncData));
        synced.map_err(|error| self.note_failure(error))
    }

    pub(super) fn hold(&self, links: &Path) -> Result<Vec<HeldFile>, SpoolError> {
        let _commits = lock(&self.commits);
        let database = self.host.get()?;
        Ok(plumbago_fjall_host::hold(&self.dir, links, Some(database.database()))?)
    }

    /// Counts damaged places of a keyspace and names its damaged files.
    fn note_damage(&self, keyspace: &Path, places: u64, text: &str) {
        self.metrics.damaged.add(places);
        if places == 0 {
            return;
        }
        let files = plumbago_fjall_host::damaged_in(keyspace);
        if files.is_empty() {
            self.host.damage().found(keyspace, text);
        }
        files.iter().for_each(|file| self.host.damage().found(file, text));
    }

    pub(super) fn scan_states(&self, visit: &mut dyn FnMut(Id, &[u8])) -> Result<(), SpoolError> {
        let database = self.host.get()?;
        let damaged = database.visit_states(visit);
        self.note_damage(
            database.states(),
            damaged,
            "it holds state rows: points in them that were not sent to the store are lost unless the journal has them. \
             Nothing has to be done",
        );
        Ok(())
    }

    /// Where a sender continues.
    pub(super) fn start_of(&self, after: Option<Position>) -> Position {
        let segments = lock(&self.segments);
        after.unwrap_or(Position { segment: segments.sending, id: segments.sent_id })
    }

    /// Returns whether the segment is closed and may be sent. Closes the open segment if its slices have
    /// lingered long enough or if it is full.
    pub(super) fn await_segment(&self, number: u32) -> Result<bool, SpoolError> {
        let last_us = lock(&self.commits);
        let (open, segment) = self.open_segment();
        if number < open {
            return Ok(true);
        }
        let lingered = lock(&self.segments).opened.elapsed();
        let hurries = self.hurries.load(Ordering::Relaxed);
        let linger = if hurries { Duration::ZERO } else { self.config.linger };
        if segment.sums.slices == 0 || lingered < linger && !self.is_full(&segment) {
            return Ok(false);
        }
        self.cut(open, segment)?;
        drop(last_us);
        self.sync()?;
        Ok(true)
    }

    /// Closes the open segment. The caller holds `commits`.
    fn cut(&self, number: u32, segment: Segment) -> Result<(), SpoolError> {
        self.with("close a segment", |database| database.mark_closed(number, segment))?;
        let mut segments = lock(&self.segments);
        segments.open = number + 1;
        segments.opened = Instant::now();
        Ok(())
    }

    fn is_full(&self, segment: &Segment) -> bool {
        segment.sums.bytes >= (self.max_bytes / SEGMENT_PART).max(SEGMENT_BYTES_MIN)
    }

    pub(super) fn acknowledge(&self, chunk: &Chunk) -> Result<(), SpoolError> {
        lock(&self.segments).sent.add(chunk.sums);
        self.pass(chunk.end)
    }

    /// Moves the cursor to a position that [`Shared::next_chunk`] returned. Never moves it back.
    pub(super) fn pass(&self, at: Position) -> Result<(), SpoolError> {
        {
            let mut segments = lock(&self.segments);
            if (at.segment, at.id) < (segments.sending, segments.sent_id) {
                return Ok(());
            }
            if at.segment > segments.sending {
                segments.sending = at.segment;
                segments.sent = Sums::default();
                segments.acknowledge_before(at.segment, self.steady_ms());
            }
            segments.sent_id = at.id;
        }
        self.with("acknowledge", |database| database.mark_cursor(at.segment, at.id))
    }

    /// The segments that are pending or were acknowledged since a time, ordered so that the slices of later
    /// segments win. While slices are sent again, their segment and all later ones are included too.
    pub(super) fn readable_segments(&self, acknowledged_since_ms: i64) -> Vec<u32> {
        let resent_from = lock(&self.resend).first_needed().unwrap_or(u32::MAX);
        let segments = lock(&self.segments);
        let is_recent =
            |segment: &Segment| segment.acknowledged_ms.is_none_or(|at| at >= acknowledged_since_ms);
        let readable = |number: u32, segment: &Segment| is_recent(segment) || number >= resent_from;
        // A retained slice that was deferred may be older than what the server has now, so only reads of all
        // retained rows include it.
        let arrived = if acknowledged_since_ms == i64::MIN { segments.arrived } else { Default::default() };
        let early = [(DEFERRED, segments.deferred)].into_iter().chain(ARRIVED.into_iter().zip(arrived));
        let all = early.chain(segments.all.iter().map(|(number, segment)| (*number, *segment)));
        let readable = all.filter(|(number, segment)| segment.sums.slices > 0 && readable(*number, segment));
        readable.map(|(number, _)| number).collect()
    }

    /// Like [`Database::visit_slices`], but counts damage.
    pub(super) fn visit(
        &self,
        from: Key,
        to: Key,
        visit: &mut dyn FnMut(Key, fjall::Slice) -> bool,
    ) -> Result<(), SpoolError> {
        let database = self.host.get()?;
        let damaged = database.visit_slices(from, to, visit);
        self.note_damage(
            database.slices(),
            damaged,
            "it holds rows for the store: the damaged ones are skipped and lost unless the store has them already. \
             Nothing has to be done: the file is removed once its other rows are sent",
        );
        Ok(())
    }

    pub(super) fn report_damage(&self, key: &Key, what: &str) {
        self.metrics.damaged.add(1);
        tracing::error!(
            segment = key.segment,
            timestamp_us = key.timestamp_us,
            what,
            "skipped a damaged slice in the spool; its points are lost unless the server has them"
        );
    }

    pub(super) fn hold_commits(&self) -> MutexGuard<'_, i64> {
        lock(&self.commits)
    }

    pub(super) fn replace(&self, changes: Vec<(Key, Option<Vec<u8>>)>) -> Result<(), SpoolError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.with("change slices", |database| database.change(changes, &[]))
    }

    pub(super) fn stats(&self) -> SpoolStats {
        let last_us = *lock(&self.commits);
        let resend_bytes = self.resend_bytes();
        let segments = lock(&self.segments);
        let pending = segments.pending();
        let age_us = |oldest: i64| self.now_us().saturating_sub(oldest).max(0);
        SpoolStats {
            pending_bytes: pending.bytes,
            pending_rows: pending.rows,
            retained_bytes: segments.held_bytes() - pending.bytes,
            max_bytes: self.max_bytes,
            oldest: segments.oldest_us().map(|oldest| Duration::from_micros(age_us(oldest) as u64)),
            deferred_rows: segments.deferred.sums.rows,
            resend_bytes,
            last_us,
        }
    }

    /// The time that timestamps come from, in microseconds since the epoch.
    pub(super) fn now_us(&self) -> i64 {
        let now_ms = self.clock.now_ms().saturating_add(self.lag_ms.load(Ordering::Relaxed));
        now_ms.saturating_mul(1000)
    }

    /// The time by which retention is measured. The wall clock may be set meanwhile.
    pub(super) fn steady_ms(&self) -> i64 {
        self.clock.steady_ms()
    }

    /// Converts a time in microseconds since the epoch to the steady clock, also in microseconds.
    pub(super) fn steady_us(&self, wall_us: i64) -> i64 {
        let difference_ms = self.clock.steady_ms().saturating_sub(self.clock.now_ms());
        wall_us.saturating_add(difference_ms.saturating_mul(1000))
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        space::used_by(&self.dir)
    }

    pub(super) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone().or_else(|| self.host.trouble())
    }

    pub(super) fn close(&self) {
        self.host.close();
    }

    /// Writes to the database. After a failure, the database refuses writes until it has been reopened.
    pub(super) fn with<T>(
        &self,
        operation: &str,
        act: impl FnOnce(&Database) -> fjall::Result<T>,
    ) -> Result<T, SpoolError> {
        let database = self.host.get_to_write()?;
        act(&database).map_err(|error| {
            self.host.write_failed(&format_args!("{operation}: {error}"));
            self.note_failure(HostError::Broken { path: self.dir.clone(), reason: error.to_string() })
        })
    }
}

/// Opens the database, or opens it again, and reads its marks.
pub(super) fn open(host: &Host<Database>, memtable_bytes: u64) -> Result<(Marks, Arc<Database>), SpoolError> {
    let broken = || SpoolError::unavailable("it is open already");
    let opening = host.begin()?.ok_or_else(broken)?;
    let database = Database::with(opening.database().clone(), memtable_bytes)
        .map_err(|error| SpoolError::Open(HostError::opening(host.dir(), error)))?;
    let marks = database.marks()?;
    let newest = u64::try_from(marks.last_us).unwrap_or(0);
    Ok((marks, opening.finish(database, newest)?))
}

/// The segments found at a start. The segment that was open is closed, whether it was sent or not.
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
    let open = last.max(sending).max(marks.live_from).max(newest).max(DEFERRED + 1);
    let mut segments = Segments {
        all,
        deferred: marks.deferred,
        open,
        opened: Instant::now(),
        sending: sending.max(marks.live_from).max(DEFERRED + 1),
        sent_id,
        sent: Sums::default(),
        read: 0,
        arrived: marks.arrived,
        collecting: 0,
    };
    for segment in &mut segments.arrived {
        segment.acknowledged_ms = Some(now_ms);
    }
    segments.acknowledge_before(segments.sending, now_ms);
    Ok(segments)
}
