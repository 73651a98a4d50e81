//! The queue on the disk: finished rows for a remote store, and the state rows that belong to them.
//!
//! A commit is one atomic batch of state rows (a metric's id and opaque bytes) and *slices* (rows of one
//! metric for the remote store, which are opaque bytes too) with its own client timestamp. A slice is kept
//! until it is acknowledged, and for a while after it, so that it can be sent again if the server loses it.
//!
//! Slices are stored in *segments*, and within a segment by metric and then by time. A segment is closed when
//! the sender has caught up or when it is full. So the pending rows of a metric are adjacent, however long
//! they have been pending: the sender makes large requests of them, and a reader finds them with one seek per
//! segment, without a table of metrics in memory (`docs/decisions/spool.md`, `docs/formats/spool.md`).
//!
//! Must not know: the content of slices and state rows, nor where slices are sent. Start at [`Spool`].

mod background;
mod chunk;
mod config;
mod cursor;
mod database;
mod deferred;
mod housekeeping;
mod laps;
mod metrics;
mod read;
mod resend;
mod row;
mod segment;
mod shared;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plumbago_fjall_host::HeldFile;
use plumbago_model::Clock;
use plumbago_telemetry::Registry;
use uuid::Uuid;

use crate::SpoolError;
use background::Background;

pub use chunk::{Chunk, Position, SpooledSlice};
pub use config::SpoolConfig;
pub use read::Edit;
use read::READABLE_AFTER;
pub use resend::ResendChunk;
pub use shared::SpoolStats;

use shared::Shared;

/// A metric's id.
pub type Id = [u8; 16];

/// The rows that a commit has for one metric.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'a> {
    /// The id of the metric.
    pub id: Id,
    /// How many rows it holds, for counters.
    pub rows: u32,
    /// The encoded rows.
    pub bytes: &'a [u8],
}

/// A state row. Empty bytes delete it.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// The id of the metric.
    pub id: Id,
    /// The encoded state of the metric.
    pub bytes: &'a [u8],
}

/// The queue in one directory. Clones share the queue. Dropping the last clone syncs it.
#[derive(Clone)]
pub struct Spool {
    // Dropped first, because the thread uses the database.
    background: Arc<Background>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spool")
    }
}

impl Spool {
    /// Opens the spool in `dir`, or creates it. A log damaged by a power cut is repaired.
    ///
    /// # Errors
    /// [`SpoolError::Open`] when the directory cannot be opened, [`SpoolError::Corrupt`] when its marks are
    /// damaged.
    pub fn open(
        dir: &Path,
        config: SpoolConfig,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, SpoolError> {
        let shared = Arc::new(Shared::open(dir, config, clock, registry)?);
        let background = Background::start(shared.clone())?;
        Ok(Self { background: Arc::new(background), shared })
    }

    /// Commits all or nothing, and returns the timestamp of the slices in microseconds since the epoch. Each
    /// commit has a later timestamp than those before it, even across restarts. A commit survives `kill -9`.
    ///
    /// # Errors
    /// [`SpoolError::Full`] and [`SpoolError::Unavailable`]: nothing was committed, retry later.
    pub fn commit(&self, slices: &[Slice<'_>], states: &[State<'_>]) -> Result<i64, SpoolError> {
        self.shared.commit(slices, states)
    }

    /// Makes every commit so far survive a power cut.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] when the disk failed: nothing since the last good sync is durable.
    pub fn sync(&self) -> Result<(), SpoolError> {
        self.shared.sync()
    }

    /// Holds the spool's files as they are now, by links in the new directory `links` on the same file system. For
    /// backups. Commits wait for a moment.
    ///
    /// # Errors
    /// [`SpoolError::Closed`], or [`SpoolError::Unavailable`] if the disk fails or the database is being opened again.
    pub fn hold(&self, links: &Path) -> Result<Vec<HeldFile>, SpoolError> {
        self.shared.hold(links)
    }

    /// Visits all state rows in id order. Damaged ones are counted and skipped.
    ///
    /// # Errors
    /// [`SpoolError::Closed`], or [`SpoolError::Unavailable`] while the database is being opened again.
    pub fn scan_states(&self, visit: &mut dyn FnMut(Id, &[u8])) -> Result<(), SpoolError> {
        self.shared.scan_states(visit)
    }

    /// Returns the next slices after `after`, or after the last acknowledged one: whole metrics, up to about
    /// `most_bytes`. `None` if nothing is due. All returned slices were synced before, so that no timestamp
    /// that a server has seen is assigned twice.
    ///
    /// # Errors
    /// If the database cannot be synced.
    pub fn next_chunk(
        &self,
        after: Option<Position>,
        most_bytes: usize,
    ) -> Result<Option<Chunk>, SpoolError> {
        self.shared.next_chunk(after, most_bytes)
    }

    /// Acknowledges a chunk. Chunks are acknowledged in the order in which they were read.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] if the acknowledgement could not be written; the chunk stays pending.
    pub fn acknowledge(&self, chunk: &Chunk) -> Result<(), SpoolError> {
        self.shared.acknowledge(chunk)
    }

    /// Defers slices that cannot be sent for now, so that they do not block the others; call it before
    /// their chunk is acknowledged. Each comes with the timestamp under which it will be sent, and replaces
    /// the deferred slice of the same metric and timestamp.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] if the slices could not be written.
    pub fn defer(&self, slices: &[(i64, Slice<'_>)]) -> Result<(), SpoolError> {
        self.shared.defer(slices)
    }

    /// Returns deferred slices after `after`, up to about `most_bytes`; none at the end.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] while the database is being opened again.
    pub fn next_deferred(
        &self,
        after: Option<&SpooledSlice>,
        most_bytes: usize,
    ) -> Result<Vec<SpooledSlice>, SpoolError> {
        self.shared.next_deferred(after, most_bytes)
    }

    /// Moves deferred slices that were acknowledged to the retained ones.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] if the acknowledgement could not be written; the slices will be sent
    /// again.
    pub fn retain_deferred(&self, slices: &[SpooledSlice]) -> Result<(), SpoolError> {
        self.shared.retain_deferred(slices)
    }

    /// Makes the sender send new slices at once instead of waiting for more. Used at the end of a process.
    pub fn hurry(&self) {
        self.shared.hurries.store(true, Ordering::Relaxed);
    }

    /// Lets retained slices expire as if the time were `until_ms` ([`Clock::steady_ms`]). This is the time up
    /// to which no server is known to have lost rows. Before the first call no slice expires, unless all
    /// slices take more than half of the limit.
    pub fn release(&self, until_ms: i64) {
        self.shared.released_ms.store(until_ms, Ordering::Relaxed);
    }

    /// Queues all retained slices to be sent again, for servers that may have lost them.
    /// [`Spool::next_resend`] returns these slices; they stay acknowledged meanwhile. Once this returns,
    /// the queue survives a power cut. Returns the bytes of all slices that are queued to be sent again,
    /// for these or other servers.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] if this could not be recorded on the disk.
    pub fn resend(&self, servers: &[Uuid]) -> Result<u64, SpoolError> {
        self.shared.resend(servers, i64::MIN)
    }

    /// Like [`Spool::resend`], but for all servers, and only with the slices that were acknowledged since `since_us`
    /// (microseconds since the epoch). After a restart, all retained slices count as acknowledged at the time of the
    /// restart.
    ///
    /// # Errors
    /// As [`Spool::resend`].
    pub fn resend_since(&self, since_us: i64) -> Result<u64, SpoolError> {
        self.shared.resend(&[Uuid::nil()], since_us)
    }

    /// Returns the slices at or after `at` that [`Spool::resend_since`] would send again, up to about
    /// `most_bytes`, and changes nothing. `None` at the end. Begin at [`Position::default`], and continue at
    /// the end of each chunk.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] while the database is being opened again.
    pub fn look_again(
        &self,
        since_us: i64,
        at: Position,
        most_bytes: usize,
    ) -> Result<Option<ResendChunk>, SpoolError> {
        self.shared.look_again(since_us, at, most_bytes)
    }

    /// Returns the next slices to be sent again, up to about `most_bytes`. `None` when there are none, or as
    /// long as the next ones are still pending. Pass each to [`Spool::resent`] before the next call.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] while the database is being opened again.
    pub fn next_resend(&self, most_bytes: usize) -> Result<Option<ResendChunk>, SpoolError> {
        self.shared.next_resend(most_bytes)
    }

    /// Notes that slices were sent again. If not all of them were acknowledged (`is_complete` is false), these slices
    /// and all others are returned once more.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] if this could not be recorded on the disk.
    pub fn resent(&self, chunk: &ResendChunk, is_complete: bool) -> Result<(), SpoolError> {
        self.shared.resent(chunk, is_complete)
    }

    /// Sets whether the servers keep a commit log. This determines how long slices are retained, unless
    /// [`SpoolConfig::retain`] is set.
    pub fn set_durable(&self, is_durable: bool) {
        self.shared.is_durable.store(is_durable, Ordering::Relaxed);
    }

    /// Visits the slices of some metrics that are pending or were acknowledged in the last minute: the
    /// position in `ids`, the timestamp under which they would be sent now (microseconds since the epoch),
    /// and the bytes. A metric's slices come in the order of commits, but deferred ones come first.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] while the database is being opened again.
    pub fn read(&self, ids: &[Id], visit: &mut dyn FnMut(usize, i64, &[u8])) -> Result<(), SpoolError> {
        self.shared.read_slices(ids, Some(READABLE_AFTER), visit)
    }

    /// Like [`Spool::read`], with all retained slices, however long ago they were acknowledged.
    ///
    /// # Errors
    /// As [`Spool::read`].
    pub fn read_retained(
        &self,
        ids: &[Id],
        visit: &mut dyn FnMut(usize, i64, &[u8]),
    ) -> Result<(), SpoolError> {
        self.shared.read_slices(ids, None, visit)
    }

    /// Changes the slices of some metrics, retained ones included. `change` gets the position in `ids`, the timestamp
    /// of the commit (microseconds since the epoch) and the bytes.
    ///
    /// # Errors
    /// [`SpoolError::Unavailable`] when a change could not be written; earlier ones are kept.
    pub fn edit(
        &self,
        ids: &[Id],
        change: &mut dyn FnMut(usize, i64, &[u8]) -> Edit,
    ) -> Result<(), SpoolError> {
        self.shared.edit(ids, change)
    }

    /// Sets how far the clock is behind the servers', in milliseconds. Timestamps of later commits are moved by it: they
    /// would otherwise lose against earlier rows and deletions of other daemons.
    pub fn set_lag(&self, ms: i64) {
        self.shared.lag_ms.store(ms, Ordering::Relaxed);
    }

    /// The time that timestamps come from, in microseconds since the epoch.
    pub(crate) fn now_us(&self) -> i64 {
        self.shared.now_us()
    }

    /// What the spool holds.
    pub fn stats(&self) -> SpoolStats {
        self.shared.stats()
    }

    /// Returns a timestamp later than all assigned so far, for a deletion that must win over earlier rows.
    ///
    /// # Errors
    /// If the timestamp cannot be saved, as for [`Spool::commit`].
    pub fn timestamp(&self) -> Result<i64, SpoolError> {
        self.shared.commit(&[], &[])
    }

    /// Disk space that the spool uses, in bytes. Reads the whole directory, so do not call it per commit.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes()
    }

    /// Why commits are refused; `None` while they are not.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }

    /// Syncs and closes the spool.
    ///
    /// # Errors
    /// If the database cannot be synced. The spool is closed anyway.
    pub fn close(self) -> Result<(), SpoolError> {
        self.background.stop();
        let result = self.shared.sync();
        self.shared.close();
        result
    }
}

/// If another thread panics, the data behind these mutexes is still complete.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
