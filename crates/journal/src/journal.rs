//! The public handle of the journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbago_model::Clock;
use plumbago_telemetry::Registry;

use crate::background::Background;
use crate::disk::SystemDisk;
use crate::shared::{Hold, Shared};
use crate::{Config, JournalError, JournalWriter, Position, Record, ReplayReport, SegmentInfo};

/// The journal of one data directory. Clones share it. Dropping the last clone syncs the files and stops the
/// background thread.
#[derive(Clone)]
pub struct Journal {
    // Dropped before `shared`, so that the thread ends before its files are closed.
    background: Arc<Background>,
    shared: Arc<Shared>,
}

impl Journal {
    /// Opens the journal in `dir`, or creates it. Cuts unfinished writes off the ends of files, converts a
    /// directory of format 1, and syncs all files. After a [`Journal::close`] it reads no log file, only their names and
    /// lengths: damage is found by what reads the records.
    ///
    /// # Errors
    ///
    /// `Locked` if another process has the journal open, `Format` if a newer version has written it,
    /// `Corrupt` if a journal of format 1 is damaged, `Unavailable` if the disk is full, `Failed` for any other
    /// failure. Damaged frames are not an error: [`Journal::replay`] skips them.
    pub fn open(
        dir: &Path,
        config: Config,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, JournalError> {
        let sync = config.sync;
        let shared = Arc::new(Shared::open(dir, &config, clock, registry, Arc::new(SystemDisk))?);
        let background = Background::start("journal", shared.clone(), sync)?;
        Ok(Self { background: Arc::new(background), shared })
    }

    /// Visits the records of all live segments in the order of their sequence numbers. Damaged frames are
    /// logged, counted and skipped. Call it before the first [`Journal::writer`].
    ///
    /// # Errors
    ///
    /// `Failed` if a file cannot be read, `Closed` after [`Journal::close`].
    pub fn replay(&self, visit: &mut dyn FnMut(Record<'_>)) -> Result<ReplayReport, JournalError> {
        self.shared.replay(visit)
    }

    /// Visits records that were written before, from `position` on, in the order in which each writer has written them;
    /// records of different writers are mixed. Some may be visited twice, after a failed sync. Stops after about
    /// `bytes_max` bytes. Returns where the next call continues, and whether everything that was written before this
    /// call has been visited. Records can be appended meanwhile.
    ///
    /// # Errors
    ///
    /// `Failed` if a file cannot be read or was removed, `Closed` after [`Journal::close`].
    pub fn read_again(
        &self,
        position: Position,
        bytes_max: u64,
        visit: &mut dyn FnMut(Record<'_>),
    ) -> Result<(Position, bool), JournalError> {
        self.shared.read_again(position, bytes_max, visit)
    }

    /// Raises the next sequence number to `next_sequence`. Does nothing if it is larger already.
    pub fn start_at(&self, next_sequence: u64) {
        self.shared.start_at(next_sequence);
    }

    /// The largest sequence number that was assigned or reserved.
    pub fn sequence(&self) -> u64 {
        self.shared.last_sequence()
    }

    /// Creates a writer. Each shard needs its own.
    pub fn writer(&self) -> JournalWriter {
        JournalWriter::new(self.shared.clone())
    }

    /// The live segments that hold frames, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.shared.segments()
    }

    /// The number of the current segment. It never decreases, not even if the clock is set back.
    pub fn current_segment(&self) -> u32 {
        self.shared.current_segment()
    }

    /// Drops all segments before `segment` and returns how many of them held records. All their points must
    /// be in the store, in commits that are synced.
    ///
    /// # Errors
    ///
    /// `Failed` if a file cannot be removed; a later call retries. `Closed` after [`Journal::close`].
    pub fn drop_before(&self, segment: u32) -> Result<usize, JournalError> {
        self.shared.drop_before(segment)
    }

    /// Keeps all segments until the returned value is dropped: [`Journal::drop_before`] drops none meanwhile. For
    /// backups.
    pub fn hold(&self) -> Hold {
        self.shared.hold()
    }

    /// The log files, oldest first, each with the byte offset up to which frames were written to it.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.shared.files()
    }

    /// Makes all written records survive power loss.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the sync failed and the records could not be written again either; a later call
    /// retries. `Poisoned` if some of the records are lost. `Closed` after [`Journal::close`].
    pub fn sync(&self) -> Result<(), JournalError> {
        self.shared.sync()
    }

    /// Number of bytes that the journal's directory occupies on the disk. Lists the directory, so it is slow.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes()
    }

    /// False while the journal refuses points.
    pub fn healthy(&self) -> bool {
        self.shared.healthy()
    }

    /// Why points are refused. `None` while they are accepted.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }

    /// Syncs, closes all files, notes for the next open that this went well, and releases the directory's lock. Writers
    /// that still exist get `Closed` from then on.
    ///
    /// # Errors
    ///
    /// As [`Journal::sync`]. The journal is closed even then.
    pub fn close(self) -> Result<(), JournalError> {
        self.background.stop();
        let result = self.shared.sync();
        self.shared.close();
        result
    }
}
