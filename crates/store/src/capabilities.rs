//! What a store can do beyond the calls that every store has.

use std::fmt::Debug;

/// The optional abilities of a store. Callers decide by these fields, never by the type of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The store keeps single slots instead of blocks. Every `engine.flush_interval` the engine then commits
    /// the points that arrived since the last flush. Otherwise it flushes a metric when its block is full.
    pub interval_flushes: bool,
    /// [`MetadataStore::scan`](crate::MetadataStore::scan) yields names in byte order.
    pub ordered_scan: bool,
    /// Other processes may write windows of the same metrics. Then columns may carry
    /// [`OtherWriters`](crate::OtherWriters).
    pub several_writers: bool,
    /// Rows may be accepted by this process before other readers of the store see them.
    /// [`PointStore::read_pending`](crate::PointStore::read_pending) returns such rows.
    pub pending_rows: bool,
    /// Names and state rows are on the local disk and only this process changes them, and the store keeps the note of
    /// [`FlushStore::note_checkpoint`](crate::FlushStore::note_checkpoint). So what the engine has in memory at a stop
    /// still holds at the next start.
    pub keeps_checkpoints: bool,
}

/// The common part of all store traits.
///
/// There is no default implementation on purpose: a wrapper that did not pass on the capabilities of the
/// store inside it would change how its callers behave.
pub trait Store: Send + Sync + Debug {
    /// The store's capabilities. They may change while the process runs, e.g. once all names are loaded.
    fn capabilities(&self) -> Capabilities;
}
