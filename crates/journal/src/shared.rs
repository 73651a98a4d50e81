//! What the journal, its writers and its background thread share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use fjall::PersistMode;
use plumbago_model::Clock;
use plumbago_telemetry::{Registry, Throttle};

use crate::background::Chores;
use crate::database::Database;
use crate::metrics::Metrics;
use crate::segment::SegmentClock;
use crate::{Config, JournalError, Record, ReplayReport, SegmentInfo, lock, space};

/// One line about refused points per so many milliseconds.
const REFUSAL_LINE_MS: i64 = 10_000;

/// How long a hand-over waits for a slow disk before it refuses.
const STALL_STEP: Duration = Duration::from_millis(5);
const STALL_STEPS: u32 = 200;

/// Locks are taken in the order `changes`, `state`.
pub(crate) struct Shared {
    dir: PathBuf,
    config: Config,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    next_sequence: AtomicU64,
    segment_clock: Mutex<SegmentClock>,
    /// Held while segments are dropped and while the database is opened again, which takes long.
    /// Hand-overs go on meanwhile.
    changes: Mutex<()>,
    state: RwLock<State>,
    unsynced: AtomicBool,
    /// Why the last hand-over or sync failed, until one succeeds.
    trouble: Mutex<Option<String>>,
    refusals: Throttle,
}

enum State {
    Open(Database),
    /// fjall has refused a write and takes no more until it is opened again.
    Broken,
    /// A sync failed: the kernel may have dropped what was handed over, so going on would only
    /// hide the gap.
    Poisoned(String),
    Closed,
}

impl State {
    fn database(&self) -> Result<&Database, JournalError> {
        match self {
            Self::Open(database) => Ok(database),
            Self::Broken => Err(unavailable("a write failed and the journal is not open again yet")),
            Self::Poisoned(reason) => Err(JournalError::Poisoned { reason: reason.clone() }),
            Self::Closed => Err(JournalError::Closed),
        }
    }
}

impl Shared {
    pub(crate) fn open(
        dir: &Path,
        config: Config,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, JournalError> {
        let metrics = Metrics::new(registry);
        let (database, repaired) = Database::open(dir)?;
        metrics.torn_tails.add(u64::from(repaired.is_some()));
        let shared = Self {
            dir: dir.to_owned(),
            next_sequence: AtomicU64::new(database.last_sequence().saturating_add(1)),
            segment_clock: Mutex::new(SegmentClock::new(config.segment.as_secs(), database.newest_segment())),
            changes: Mutex::new(()),
            state: RwLock::new(State::Open(database)),
            unsynced: AtomicBool::new(false),
            trouble: Mutex::new(None),
            refusals: Throttle::new(REFUSAL_LINE_MS),
            config,
            clock,
            metrics,
        };
        shared.show();
        Ok(shared)
    }

    pub(crate) fn replay(&self, visit: &mut dyn FnMut(Record<'_>)) -> Result<ReplayReport, JournalError> {
        crate::replay::replay(self.read().database()?, &self.metrics, visit)
    }

    pub(crate) fn start_at(&self, next_sequence: u64) {
        self.next_sequence.fetch_max(next_sequence, Ordering::Relaxed);
    }

    pub(crate) fn last_sequence(&self) -> u64 {
        self.next_sequence.load(Ordering::Relaxed) - 1
    }

    /// Reserves `count` sequence numbers and returns the first.
    pub(crate) fn reserve(&self, count: u64) -> u64 {
        self.next_sequence.fetch_add(count, Ordering::Relaxed)
    }

    pub(crate) fn current_segment(&self) -> u32 {
        lock(&self.segment_clock).at(self.clock.now())
    }

    pub(crate) fn segments(&self) -> Vec<SegmentInfo> {
        let state = self.read();
        let Ok(database) = state.database() else { return Vec::new() };
        let infos = database.segments().iter().map(|(number, segment)| SegmentInfo {
            number: *number,
            first_sequence: segment.first_sequence(),
            bytes: segment.bytes(),
        });
        infos.collect()
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        space::used_by(&self.dir)
    }

    pub(crate) fn healthy(&self) -> bool {
        self.trouble().is_none()
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// Gives one frame to the kernel.
    pub(crate) fn write(
        &self,
        segment: u32,
        first_sequence: u64,
        frame: &[u8],
        points: usize,
    ) -> Result<(), JournalError> {
        let result = self.try_write(segment, first_sequence, frame);
        match &result {
            Ok(()) => {
                self.unsynced.store(true, Ordering::Release);
                self.metrics.written_bytes.add(frame.len() as u64);
                self.metrics.written_points.add(points as u64);
                self.clear_trouble();
            }
            Err(error) => self.note_refusal(error, points),
        }
        result
    }

    fn try_write(&self, segment: u32, first_sequence: u64, frame: &[u8]) -> Result<(), JournalError> {
        self.check_room(frame.len() as u64)?;
        self.await_disk()?;
        let insert = || self.with("append", |database| database.insert(segment, first_sequence, frame));
        if insert()? {
            return Ok(());
        }
        if let State::Open(database) = &mut *self.write_lock() {
            database.add_segment(segment, first_sequence);
        }
        if insert()? { Ok(()) } else { Err(unavailable("the segment was dropped meanwhile")) }
    }

    /// Does something with the database. After a failure fjall takes no more, so the database is let
    /// go then.
    fn with<T>(
        &self,
        operation: &str,
        act: impl FnOnce(&Database) -> fjall::Result<T>,
    ) -> Result<T, JournalError> {
        let result = act(self.read().database()?);
        result.map_err(|error| self.break_down(operation, &error))
    }

    fn check_room(&self, bytes: u64) -> Result<(), JournalError> {
        let least = self.config.min_free_bytes;
        if let Some(free) = space::free_at(&self.dir)
            && free < least.saturating_add(bytes)
        {
            return Err(unavailable(format!(
                "{} has {free} bytes left, least are {least}",
                self.dir.display()
            )));
        }
        if let Some(max) = self.config.max_bytes {
            let held = self.read().database()?.frame_bytes();
            if held.saturating_add(bytes) > max {
                return Err(unavailable(format!("it holds {held} bytes, most are {max}")));
            }
        }
        Ok(())
    }

    /// Waits a little while fjall is behind with writing memtables.
    fn await_disk(&self) -> Result<(), JournalError> {
        for _ in 0..STALL_STEPS {
            if !self.read().database()?.is_stalled() {
                return Ok(());
            }
            std::thread::sleep(STALL_STEP);
        }
        Err(unavailable("the disk is behind with writing"))
    }

    pub(crate) fn drop_before(&self, number: u32) -> Result<usize, JournalError> {
        let _guard = lock(&self.changes);
        let (forgotten, work) = match &mut *self.write_lock() {
            State::Open(database) => (database.forget_before(number), database.has_leftovers()),
            other => return other.database().map(|_| 0),
        };
        if work {
            self.with("drop segments", Database::mark_forgotten)?;
            self.unsynced.store(true, Ordering::Release);
            self.sync()?;
            self.with("drop segments", Database::drop_forgotten)?;
        }
        Ok(forgotten)
    }

    pub(crate) fn sync(&self) -> Result<(), JournalError> {
        let result = {
            let state = self.read();
            let database = state.database()?;
            if !self.unsynced.swap(false, Ordering::AcqRel) {
                return Ok(());
            }
            database.persist(PersistMode::SyncData)
        };
        match result {
            Ok(()) => {
                self.metrics.syncs.add(1);
                Ok(())
            }
            // Some write failed before; fjall refuses syncs too until it is opened again.
            Err(error @ fjall::Error::Poisoned) => {
                self.unsynced.store(true, Ordering::Release);
                Err(self.break_down("sync", &error))
            }
            Err(error) => Err(self.poison(&error)),
        }
    }

    pub(crate) fn close(&self) {
        *self.write_lock() = State::Closed;
    }

    /// What the background thread does from time to time.
    pub(crate) fn care(&self) {
        if matches!(*self.read(), State::Broken) {
            self.open_again();
        }
        self.show();
    }

    fn show(&self) {
        if let Ok(database) = self.read().database() {
            self.metrics.segments.set(database.segments().len() as f64);
            self.metrics.bytes.set(database.frame_bytes() as f64);
        }
        self.metrics.healthy.set(if self.healthy() { 1.0 } else { 0.0 });
    }

    /// Lets a database go that fjall has given up; the background thread opens it again. What was
    /// handed over is in its log, what was not is in the writers' frames.
    fn break_down(&self, operation: &str, error: &fjall::Error) -> JournalError {
        let mut state = self.write_lock();
        if matches!(*state, State::Open(_)) {
            *state = State::Broken;
            tracing::error!(dir = %self.dir.display(), operation, %error, "journal write failed, opening it again");
        }
        let error = unavailable(format!("failed to {operation}: {error}"));
        drop(state);
        self.set_trouble(&error);
        error
    }

    fn open_again(&self) {
        let _guard = lock(&self.changes);
        match Database::open(&self.dir) {
            Ok((database, repaired)) => {
                self.metrics.reopened.add(1);
                self.metrics.torn_tails.add(u64::from(repaired.is_some()));
                let mut state = self.write_lock();
                if matches!(*state, State::Broken) {
                    *state = State::Open(database);
                    drop(state);
                    self.clear_trouble();
                }
            }
            Err(error) => {
                self.set_trouble(&error);
                if self.refusals.pass(self.clock.now_ms()).is_some() {
                    tracing::error!(dir = %self.dir.display(), %error, "journal cannot be opened again yet");
                }
            }
        }
    }

    fn poison(&self, error: &fjall::Error) -> JournalError {
        self.metrics.sync_errors.add(1);
        let reason = error.to_string();
        *self.write_lock() = State::Poisoned(reason.clone());
        tracing::error!(
            dir = %self.dir.display(), %error,
            "journal sync failed: points since the last sync may be lost in a crash, no more are taken until a restart"
        );
        let error = JournalError::Poisoned { reason };
        self.set_trouble(&error);
        error
    }

    fn note_refusal(&self, error: &JournalError, points: usize) {
        self.metrics.refused.add(1);
        self.set_trouble(error);
        if let Some(held_back) = self.refusals.pass(self.clock.now_ms()) {
            tracing::error!(dir = %self.dir.display(), %error, points, held_back, "journal refused a frame, it is kept");
        }
    }

    fn set_trouble(&self, error: &JournalError) {
        *lock(&self.trouble) = Some(error.to_string());
        self.metrics.healthy.set(0.0);
    }

    fn clear_trouble(&self) {
        let mut trouble = lock(&self.trouble);
        if trouble.take().is_some() {
            self.metrics.healthy.set(1.0);
            tracing::info!(dir = %self.dir.display(), "journal takes points again");
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chores for Shared {
    fn sync(&self) {
        let _ = Self::sync(self);
    }

    fn care(&self) {
        Self::care(self);
    }
}

fn unavailable(reason: impl Into<String>) -> JournalError {
    JournalError::Unavailable { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use plumbago_model::ManualClock;

    use super::*;
    use crate::JournalWriter;

    /// A failed sync cannot be had from a sound disk, so its consequence is tested alone.
    #[test]
    fn a_failed_sync_is_loud_and_final() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::new();
        let clock = Arc::new(ManualClock::at(1_700_000_100));
        let shared = Arc::new(Shared::open(dir.path(), Config::default(), clock, &registry).unwrap());
        let mut writer = JournalWriter::new(shared.clone());
        writer.point(1, 2, 3.0);
        writer.hand_over().unwrap();
        assert!(shared.healthy());

        shared.poison(&fjall::Error::Io(std::io::Error::other("no answer from the disk")));
        shared.care();
        writer.point(1, 3, 4.0);
        let error = writer.hand_over().unwrap_err();
        assert!(matches!(error, JournalError::Poisoned { .. }) && !error.is_transient(), "{error}");
        assert!(matches!(shared.sync(), Err(JournalError::Poisoned { .. })));
        assert!(!shared.healthy());
        assert!(shared.trouble().unwrap().contains("no answer"));
        assert_eq!(writer.pending_points(), 1);
        assert_eq!(registry.value("plumbago_journal_sync_errors_total"), Some(1.0));
        assert_eq!(registry.value("plumbago_journal_written_points_total"), Some(1.0));
        assert_eq!(registry.value("plumbago_journal_healthy"), Some(0.0));
    }

    /// What fjall refused once is opened again, behind the writers.
    #[test]
    fn a_broken_database_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::new();
        let clock = Arc::new(ManualClock::at(1_700_000_100));
        let shared = Arc::new(Shared::open(dir.path(), Config::default(), clock, &registry).unwrap());
        let mut writer = JournalWriter::new(shared.clone());
        writer.point(1, 2, 3.0);
        writer.hand_over().unwrap();
        shared.break_down("append", &fjall::Error::Poisoned);
        writer.point(1, 3, 4.0);
        assert!(writer.hand_over().unwrap_err().is_transient());
        assert!(!shared.healthy());
        shared.care();
        assert!(shared.healthy());
        assert_eq!(writer.hand_over().unwrap(), 1);
        assert_eq!(shared.replay(&mut |_| {}).unwrap().points, 2);
    }
}
