//! The state that the journal, its writers and its background thread share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plumbago_fjall_host::space;
use plumbago_model::Clock;
use plumbago_telemetry::{Registry, Throttle};

use crate::background::Chores;
use crate::disk::Disk;
use crate::log::{Log, State, Unsynced, remove_files, unavailable};
use crate::metrics::Metrics;
use crate::open_log::{self, Opened};
use crate::segment::SegmentClock;
use crate::{Config, JournalError, Position, Record, ReplayReport, SegmentInfo, again, lock, replay};

/// Minimum time between two log lines about refused points, in milliseconds.
const REFUSAL_LINE_MS: i64 = 10_000;

/// Keeps the segments of a journal; see [`crate::Journal::hold`].
#[derive(Debug)]
#[must_use]
pub struct Hold(Arc<AtomicUsize>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The shared state. A thread that needs both locks takes `changes` before `log`.
pub(crate) struct Shared {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    next_sequence: AtomicU64,
    segment_clock: Mutex<SegmentClock>,
    /// Held while files are synced or removed. Frames can be appended meanwhile.
    changes: Mutex<()>,
    /// Number of [`Hold`]s. Segments are not dropped while there are any.
    holds: Arc<AtomicUsize>,
    log: Mutex<Log>,
    /// Why the last append or sync failed. `None` after one has succeeded.
    trouble: Mutex<Option<String>>,
    refusals: Throttle,
}

impl Shared {
    pub(crate) fn open(
        dir: &Path,
        config: &Config,
        clock: Arc<dyn Clock>,
        registry: &Registry,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, JournalError> {
        let metrics = Metrics::new(registry);
        let Opened { log, last_sequence, torn_tails, corrupt_frames, damaged_tails, missing } =
            open_log::open(dir, config, disk)?;
        metrics.torn_tails.add(torn_tails);
        metrics.corrupt_frames.add(corrupt_frames);
        for (file, copy, tail) in &damaged_tails {
            metrics.note_damaged_tail(file, copy, *tail);
        }
        for (file, bytes) in &missing {
            metrics.note_missing(file, *bytes);
        }
        let shared = Self {
            dir: dir.to_owned(),
            next_sequence: AtomicU64::new(last_sequence.saturating_add(1)),
            segment_clock: Mutex::new(SegmentClock::new(config.segment.as_secs(), log.newest_segment())),
            changes: Mutex::new(()),
            holds: Arc::default(),
            log: Mutex::new(log),
            trouble: Mutex::new(None),
            refusals: Throttle::new(REFUSAL_LINE_MS),
            clock,
            metrics,
        };
        shared.show();
        Ok(shared)
    }

    pub(crate) fn replay(&self, visit: &mut dyn FnMut(Record<'_>)) -> Result<ReplayReport, JournalError> {
        let sources = {
            let log = lock(&self.log);
            if matches!(log.state, State::Closed) {
                return Err(JournalError::Closed);
            }
            replay::sources(&log)
        };
        replay::replay(sources, &self.metrics, visit)
    }

    pub(crate) fn read_again(
        &self,
        position: Position,
        bytes_max: u64,
        visit: &mut dyn FnMut(Record<'_>),
    ) -> Result<(Position, bool), JournalError> {
        let sources = {
            let log = lock(&self.log);
            if matches!(log.state, State::Closed) {
                return Err(JournalError::Closed);
            }
            again::sources(&log, position)
        };
        again::read(&sources, position, bytes_max, &self.metrics, visit)
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
        lock(&self.log).segments()
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

    /// Writes one frame. `stored` is the encoded frame with space for its place, `points` the number of
    /// points in it.
    pub(crate) fn write(
        &self,
        segment: u32,
        first_sequence: u64,
        stored: &mut [u8],
        points: usize,
    ) -> Result<(), JournalError> {
        let result = lock(&self.log).append(segment, first_sequence, stored);
        match &result {
            Ok(()) => {
                self.metrics.written_bytes.add(stored.len() as u64);
                self.metrics.written_points.add(points as u64);
                self.clear_trouble();
            }
            Err(error) => self.note_refusal(error, points),
        }
        result
    }

    pub(crate) fn hold(&self) -> Hold {
        // Wait for a removal that has already begun.
        let _guard = lock(&self.changes);
        self.holds.fetch_add(1, Ordering::AcqRel);
        Hold(Arc::clone(&self.holds))
    }

    pub(crate) fn files(&self) -> Vec<(PathBuf, u64)> {
        lock(&self.log).files.values().map(|file| (file.path.clone(), file.end)).collect()
    }

    pub(crate) fn drop_before(&self, segment: u32) -> Result<usize, JournalError> {
        let _guard = lock(&self.changes);
        if self.holds.load(Ordering::Acquire) > 0 {
            return Ok(0);
        }
        let (mut files, disk) = {
            let mut log = lock(&self.log);
            let files = log.take_before(segment)?;
            if !files.is_empty() {
                log.write_list();
            }
            (files, Arc::clone(&log.disk))
        };
        let dropped = remove_files(&*disk, &self.dir, &mut files);
        lock(&self.log).files.append(&mut files);
        dropped.map_err(|error| {
            let operation = format!("remove journal files from {}", self.dir.display());
            JournalError::failed(operation, error)
        })
    }

    pub(crate) fn sync(&self) -> Result<(), JournalError> {
        let _guard = lock(&self.changes);
        self.rewrite()?;
        let (unsynced, disk) = {
            let log = lock(&self.log);
            log.check_open()?;
            let unsynced = log.unsynced();
            let unsynced =
                unsynced.map_err(|error| unavailable(format!("opening a file failed: {error}")))?;
            (unsynced, Arc::clone(&log.disk))
        };
        if unsynced.is_empty() {
            return Ok(());
        }
        match sync_files(&*disk, &self.dir, &unsynced) {
            Ok(()) => {
                lock(&self.log).note_synced(&unsynced);
                self.metrics.syncs.add(1);
                Ok(())
            }
            Err(error) => {
                self.metrics.sync_errors.add(1);
                tracing::error!(
                    dir = %self.dir.display(), %error,
                    "a sync of the journal failed; points are refused until everything since the last successful sync is written again"
                );
                let mut log = lock(&self.log);
                log.note_sync_failure(&unsynced, &error);
                drop(log);
                self.rewrite()
            }
        }
    }

    /// Writes the data covered by failed syncs again. Does nothing if no sync has failed.
    fn rewrite(&self) -> Result<(), JournalError> {
        let result = lock(&self.log).rewrite();
        match result {
            Ok(0) => Ok(()),
            Ok(bytes) => {
                self.metrics.rewrites.add(1);
                tracing::warn!(dir = %self.dir.display(), bytes, "journal records were written again after a failed sync");
                self.clear_trouble();
                Ok(())
            }
            Err(error) => {
                self.set_trouble(&error);
                if let Some(suppressed) = self.refusals.pass(self.clock.now_ms()) {
                    tracing::error!(
                        dir = %self.dir.display(), %error, suppressed,
                        "after a failed sync the journal cannot be written again, so it accepts no points and reading from \
                         senders pauses; retrying"
                    );
                }
                Err(error)
            }
        }
    }

    /// Closes all files, and notes that they were closed well if everything is synced.
    pub(crate) fn close(&self) {
        // Wait for a removal that has already begun.
        let _guard = lock(&self.changes);
        let mut log = lock(&self.log);
        log.note_close(self.last_sequence());
        log.close();
    }

    fn show(&self) {
        let (segments, bytes) = {
            let log = lock(&self.log);
            (log.segments().len(), log.bytes())
        };
        self.metrics.segments.set(segments as f64);
        self.metrics.bytes.set(bytes as f64);
        self.metrics.healthy.set(if self.healthy() { 1.0 } else { 0.0 });
    }

    fn note_refusal(&self, error: &JournalError, points: usize) {
        self.metrics.refused.add(1);
        self.set_trouble(error);
        if let Some(suppressed) = self.refusals.pass(self.clock.now_ms()) {
            tracing::error!(dir = %self.dir.display(), %error, points, suppressed, "the journal could not write a frame; the frame is kept in memory and the write is retried");
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
            tracing::info!(dir = %self.dir.display(), "the journal accepts points again");
        }
    }
}

/// Syncs files, and the directory if one of them is new.
fn sync_files(disk: &dyn Disk, dir: &Path, files: &[Unsynced]) -> std::io::Result<()> {
    files.iter().try_for_each(|file| disk.sync(&file.file))?;
    if files.iter().any(|file| !file.is_linked) { disk.sync_dir(dir) } else { Ok(()) }
}

impl Chores for Shared {
    fn sync(&self) {
        let _ = Self::sync(self);
    }

    /// Retries after a failed sync, closes the files of past segments and updates the gauges.
    fn housekeeping(&self) {
        if self.rewrite().is_ok() {
            // Writers may still be one segment behind.
            let segment = self.current_segment();
            lock(&self.log).seal_before(segment.saturating_sub(1));
        }
        self.show();
    }
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
