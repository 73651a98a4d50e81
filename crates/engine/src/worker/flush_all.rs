//! A flush of everything that a shard holds, on request or at a stop.

use std::collections::VecDeque;

use tokio::sync::oneshot;

/// A flush of everything that a shard holds.
#[derive(Debug)]
pub(super) struct FlushAll {
    /// Whether to flush all slots. `false` at a stop, which flushes only the extent that `Shard::last_extent`
    /// returns.
    pub(super) slots: bool,
    /// Heads still to be flushed.
    pub(super) order: VecDeque<u32>,
    /// Heads whose flush is in flight.
    pub(super) sent: VecDeque<u32>,
    /// Late points with a later journal sequence need not be stored. `None` means that all late points must
    /// be stored.
    pub(super) sequence: Option<u64>,
    pub(super) done: Vec<oneshot::Sender<()>>,
}

impl FlushAll {
    /// The number of heads that are not flushed yet.
    pub(super) fn left(&self) -> u64 {
        (self.order.len() + self.sent.len()) as u64
    }

    /// Whether no other flush may be built now.
    pub(super) fn goes_first(&self) -> bool {
        !self.slots || !self.order.is_empty()
    }
}
