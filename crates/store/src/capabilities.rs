//! What a store can do beyond the calls that every store has.

use std::fmt::Debug;

/// The optional abilities of a store. Callers decide by these fields, never by the type of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the store keeps single slots instead of blocks. If it does, the engine commits at every
    /// `engine.flush_interval` the points that arrived since the last flush. Otherwise the engine flushes a
    /// metric when its block is full.
    pub interval_flushes: bool,
    /// Whether [`MetadataStore::scan`](crate::MetadataStore::scan) returns names in byte order.
    pub ordered_scan: bool,
    /// Whether other processes may write windows of the same metrics. If so, columns may carry
    /// [`OtherWriters`](crate::OtherWriters).
    pub several_writers: bool,
    /// Whether this process may accept rows before other readers of the store see them.
    /// [`PointStore::read_pending`](crate::PointStore::read_pending) returns such rows.
    pub pending_rows: bool,
    /// Whether names and state rows are on the local disk, only this process changes them, and the store
    /// keeps the record of [`FlushStore::note_checkpoint`](crate::FlushStore::note_checkpoint). If so, the
    /// engine's memory at a stop is still valid at the next start.
    pub keeps_checkpoints: bool,
}

/// The common part of all store traits.
///
/// There is no default implementation on purpose: a wrapper that does not forward the capabilities of the
/// store inside it would change the behaviour of its callers.
pub trait Store: Send + Sync + Debug {
    /// The store's capabilities. They may change while the process runs, e.g. after all names were loaded.
    fn capabilities(&self) -> Capabilities;
}
