//! The spool: finished rows on their way to a remote store, and the state rows that explain them.
//!
//! A commit brings, in one atomic batch, state rows (a metric's id and opaque bytes) and *slices*
//! (what is to be sent of one metric, opaque bytes too) under a client timestamp of its own. A slice
//! stays until its acknowledgement, and for a while after it, so that it can be sent again when the
//! server loses what it had acknowledged.
//!
//! Slices lie in *segments*, cut when the sender has caught up or when one is full, and inside of a
//! segment by metric and then by time. So what waits of a metric lies together however long it
//! waited: the sender makes large requests of it, and a reader finds it with one seek in each
//! segment, without a table of metrics in memory (`docs/decisions/spool.md`, `docs/formats/spool.md`).
//!
//! Must not know: what is in a slice or a state row, nor where slices are sent to. Start at [`Spool`].

mod care;
mod config;
mod cursor;
mod database;
mod error;
mod metrics;
mod read;
mod row;
mod segment;
mod shared;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plumbago_model::Clock;
use plumbago_telemetry::Registry;

use crate::SyncPolicy;
use crate::background::Background;

pub use config::SpoolConfig;
pub use cursor::{Chunk, Position, SpooledSlice};
pub use error::SpoolError;
pub use read::Edit;
use read::READABLE_AFTER;
pub use shared::SpoolStats;

use shared::Shared;

/// Bytes of a metric's id.
pub type Id = [u8; 16];

/// What is to be sent of one metric; one for each metric of a commit.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'a> {
    /// The metric.
    pub id: Id,
    /// How many rows it holds, for the counters.
    pub rows: u32,
    /// The rows.
    pub bytes: &'a [u8],
}

/// A state row; empty bytes delete it.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// The metric.
    pub id: Id,
    /// Its state.
    pub bytes: &'a [u8],
}

/// The spool of one data directory. Cloning shares it; the last clone that goes syncs.
#[derive(Clone)]
pub struct Spool {
    // Field order: the thread ends before its database goes.
    background: Arc<Background>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spool")
    }
}

impl Spool {
    /// Opens the spool in `dir`, or creates it. A log file torn by power loss is repaired, as the
    /// journal's.
    pub fn open(
        dir: &Path,
        config: SpoolConfig,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, SpoolError> {
        let shared = Arc::new(Shared::open(dir, config, clock, registry)?);
        let sync = SyncPolicy::Off;
        let background = Background::start("spool", shared.clone(), sync).map_err(SpoolError::Open)?;
        Ok(Self { background: Arc::new(background), shared })
    }

    /// Commits all or nothing and returns the slices' timestamp, microseconds since the epoch; each
    /// commit's is later than those before it, over restarts too. `kill -9` does not undo it.
    pub fn commit(&self, slices: &[Slice<'_>], states: &[State<'_>]) -> Result<i64, SpoolError> {
        self.shared.commit(slices, states)
    }

    /// Makes every commit so far survive power loss.
    pub fn sync(&self) -> Result<(), SpoolError> {
        self.shared.sync()
    }

    /// Visits all state rows, in id order.
    pub fn scan_states(&self, visit: &mut dyn FnMut(Id, &[u8])) -> Result<(), SpoolError> {
        self.shared.scan_states(visit)
    }

    /// The next slices behind `after`, or behind the last acknowledged one: those of whole metrics,
    /// until `most_bytes` is passed. `None` when nothing is to be sent for now. What it hands out was
    /// synced before, so that no timestamp that a server has seen is given again.
    pub fn next_chunk(
        &self,
        after: Option<Position>,
        most_bytes: usize,
    ) -> Result<Option<Chunk>, SpoolError> {
        self.shared.next_chunk(after, most_bytes)
    }

    /// The chunk arrived. Chunks are acknowledged in the order in which they were handed out; false
    /// when [`Spool::replay_since`] has made the sender start anew meanwhile.
    pub fn acknowledge(&self, chunk: &Chunk) -> Result<bool, SpoolError> {
        self.shared.acknowledge(chunk)
    }

    /// Puts slices aside that cannot be sent for now, so that they do not hold the others up; to be
    /// called before their chunk is acknowledged. They come with the timestamp under which they are
    /// sent one day, and replace what was put aside of the same metric under the same one.
    pub fn park(&self, slices: &[(i64, Slice<'_>)]) -> Result<(), SpoolError> {
        self.shared.park(slices)
    }

    /// What was put aside, behind `after`, until `most_bytes` is passed; empty at the end.
    pub fn next_parked(
        &self,
        after: Option<&SpooledSlice>,
        most_bytes: usize,
    ) -> Result<Vec<SpooledSlice>, SpoolError> {
        self.shared.next_parked(after, most_bytes)
    }

    /// Forgets slices that were put aside: they arrived.
    pub fn unpark(&self, slices: &[SpooledSlice]) -> Result<(), SpoolError> {
        self.shared.unpark(slices)
    }

    /// From now on slices are handed out without time to gather: the process is to end.
    pub fn hurry(&self) {
        self.shared.hurries.store(true, Ordering::Relaxed);
    }

    /// While this is set nothing that is retained expires, as long as slices take no more than half of the
    /// room. For the time in which a server is away: what it had acknowledged before is kept until it can
    /// be sent again.
    pub fn hold(&self, holds: bool) {
        self.shared.holds.store(holds, Ordering::Relaxed);
    }

    /// Hands out again what was acknowledged since `since_us` (microseconds since the epoch) and is still
    /// retained, with the same timestamps; after a restart all that is retained counts as acknowledged
    /// then. Returns how many bytes that are.
    pub fn replay_since(&self, since_us: i64) -> Result<u64, SpoolError> {
        self.shared.replay_since(since_us)
    }

    /// Shows what is unacknowledged, or was acknowledged in the last minute, of some metrics: the
    /// place in `ids`, the timestamp and the bytes. A metric's slices come in the order of commits.
    pub fn read(&self, ids: &[Id], visit: &mut dyn FnMut(usize, i64, &[u8])) -> Result<(), SpoolError> {
        self.shared.read_slices(ids, Some(READABLE_AFTER), visit)
    }

    /// The same with everything that is retained, however long ago it was acknowledged.
    pub fn read_retained(
        &self,
        ids: &[Id],
        visit: &mut dyn FnMut(usize, i64, &[u8]),
    ) -> Result<(), SpoolError> {
        self.shared.read_slices(ids, None, visit)
    }

    /// Changes what is kept of some metrics, retained slices included.
    pub fn edit(&self, ids: &[Id], change: &mut dyn FnMut(usize, &[u8]) -> Edit) -> Result<(), SpoolError> {
        self.shared.edit(ids, change)
    }

    /// What it holds.
    pub fn stats(&self) -> SpoolStats {
        self.shared.stats()
    }

    /// A timestamp later than all given so far, for a deletion that must win over them.
    pub fn timestamp(&self) -> Result<i64, SpoolError> {
        self.shared.commit(&[], &[])
    }

    /// What the spool takes on the disk. Walks its directory, so not for every commit.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes()
    }

    /// Why commits are refused, while they are.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }

    /// Syncs and lets the directory go.
    pub fn close(self) -> Result<(), SpoolError> {
        self.background.stop();
        let result = self.shared.sync();
        self.shared.close();
        result
    }
}
