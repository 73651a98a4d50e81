//! The journal as its owner sees it, and what its writers share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fjall::PersistMode;
use plumbago_model::Clock;
use plumbago_telemetry::Registry;

use crate::database::Database;
use crate::metrics::Metrics;
use crate::segment::{Segment, SegmentClock};
use crate::{Config, JournalError, JournalWriter, Record, ReplayReport, SegmentInfo};

/// The journal of one data directory. Cloning shares it.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

impl Journal {
    /// Opens the journal in `dir`, or creates it.
    pub fn open(
        dir: &Path,
        config: Config,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, JournalError> {
        let metrics = Metrics::new(registry);
        let database = Database::open(dir)?;
        let newest = database.segments().keys().next_back().copied();
        let shared = Shared {
            dir: dir.to_owned(),
            next_sequence: AtomicU64::new(database.last_sequence()?.saturating_add(1)),
            segment_clock: Mutex::new(SegmentClock::new(config.segment.as_secs(), newest)),
            database: RwLock::new(Some(database)),
            keyspaces: Mutex::new(()),
            unsynced: AtomicBool::new(false),
            config,
            clock,
            metrics,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Visits the records of all live segments by rising sequence number. Damaged frames are
    /// counted, named in the log and skipped. Call it before the first [`Journal::writer`].
    pub fn replay(&self, visit: &mut dyn FnMut(Record<'_>)) -> Result<ReplayReport, JournalError> {
        let database = self.shared.read();
        let database = database.as_ref().ok_or(JournalError::Closed)?;
        crate::replay::replay(database, &self.shared.metrics, visit)
    }

    /// Makes `next_sequence` the next number that is handed out, unless that one is larger already.
    pub fn start_at(&self, next_sequence: u64) {
        self.shared.next_sequence.fetch_max(next_sequence, Ordering::Relaxed);
    }

    /// The last sequence number that was handed out or reserved.
    pub fn sequence(&self) -> u64 {
        self.shared.next_sequence.load(Ordering::Relaxed) - 1
    }

    /// A writer, one for each shard's owner.
    pub fn writer(&self) -> JournalWriter {
        JournalWriter::new(self.shared.clone())
    }

    /// The live segments that hold frames, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let database = self.shared.read();
        let segments = database.iter().flat_map(|database| database.segments());
        segments
            .filter_map(|(number, segment)| {
                let bytes = segment.bytes.load(Ordering::Relaxed);
                Some(SegmentInfo { number: *number, first_sequence: segment.first_sequence()?, bytes })
            })
            .collect()
    }

    /// The segment of this moment. Never goes back, also when the clock does.
    pub fn current_segment(&self) -> u32 {
        self.shared.current_segment()
    }

    /// Drops all segments before `segment` and returns how many. The caller has made sure that all
    /// their points are in synced commits.
    pub fn drop_before(&self, segment: u32) -> Result<usize, JournalError> {
        self.shared.drop_before(segment)
    }

    /// Makes everything handed over survive power loss.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.shared.sync(PersistMode::SyncData)
    }

    /// What the journal takes on the disk. Walks its directory, so not for every point.
    pub fn disk_bytes(&self) -> u64 {
        crate::space::used_by(&self.shared.dir)
    }

    /// False while points are refused because writing or syncing failed.
    pub fn healthy(&self) -> bool {
        self.shared.read().is_some()
    }

    /// Syncs and lets the directory go. Writers that still exist are refused from now on.
    pub fn close(self) -> Result<(), JournalError> {
        let result = self.shared.sync(PersistMode::SyncAll);
        *self.shared.write_lock() = None;
        result
    }
}

/// What the journal and its writers share.
pub(crate) struct Shared {
    dir: PathBuf,
    config: Config,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    next_sequence: AtomicU64,
    segment_clock: Mutex<SegmentClock>,
    database: RwLock<Option<Database>>,
    /// Held while keyspaces are made or deleted, which takes milliseconds: `database` stays free
    /// for hand-overs to other segments meanwhile.
    keyspaces: Mutex<()>,
    unsynced: AtomicBool,
}

impl Shared {
    /// Reserves `count` sequence numbers and returns the first.
    pub(crate) fn reserve(&self, count: u64) -> u64 {
        self.next_sequence.fetch_add(count, Ordering::Relaxed)
    }

    pub(crate) fn current_segment(&self) -> u32 {
        lock(&self.segment_clock).at(self.clock.now())
    }

    /// Gives one frame to the kernel.
    pub(crate) fn write(
        &self,
        segment: u32,
        key: &[u8; 8],
        value: &[u8],
        points: usize,
    ) -> Result<(), JournalError> {
        let target = self.segment(segment)?;
        target
            .keyspace
            .insert(key.as_slice(), value)
            .map_err(|error| JournalError::failed("append to the journal", error))?;
        target.wrote(u64::from_be_bytes(*key), value.len() as u64);
        self.unsynced.store(true, Ordering::Release);
        self.metrics.written_bytes.add(value.len() as u64);
        self.metrics.written_points.add(points as u64);
        Ok(())
    }

    /// The segment with this number, made by the first who asks.
    fn segment(&self, number: u32) -> Result<Arc<Segment>, JournalError> {
        if let Some(segment) = self.find(number)? {
            return Ok(segment);
        }
        let _guard = lock(&self.keyspaces);
        if let Some(segment) = self.find(number)? {
            return Ok(segment);
        }
        let created = {
            let database = self.read();
            database.as_ref().ok_or(JournalError::Closed)?.create_segment(number)
        };
        let segment = created.map_err(|error| JournalError::failed("create a journal segment", error))?;
        if let Some(database) = self.write_lock().as_mut() {
            database.add_segment(number, segment.clone());
        }
        Ok(segment)
    }

    fn find(&self, number: u32) -> Result<Option<Arc<Segment>>, JournalError> {
        let database = self.read();
        let database = database.as_ref().ok_or(JournalError::Closed)?;
        Ok(database.segments().get(&number).cloned())
    }

    fn drop_before(&self, number: u32) -> Result<usize, JournalError> {
        let _guard = lock(&self.keyspaces);
        let mut dropped = 0;
        let taken = self.write_lock().as_mut().ok_or(JournalError::Closed)?.take_segments_before(number);
        let database = self.read();
        let database = database.as_ref().ok_or(JournalError::Closed)?;
        let fail = |error| JournalError::failed("drop a journal segment", error);
        for (_, segment) in &taken {
            database.delete_segment(segment).map_err(fail)?;
            dropped += 1;
        }
        if dropped > 0 {
            database.mark_dropped(number).map_err(fail)?;
        }
        Ok(dropped)
    }

    fn sync(&self, mode: PersistMode) -> Result<(), JournalError> {
        let database = self.read();
        let database = database.as_ref().ok_or(JournalError::Closed)?;
        if self.unsynced.swap(false, Ordering::AcqRel) {
            database.persist(mode).map_err(|error| {
                self.metrics.sync_errors.add(1);
                JournalError::failed("sync the journal", error)
            })?;
            self.metrics.syncs.add(1);
        }
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Database>> {
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, Option<Database>> {
        self.database.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
