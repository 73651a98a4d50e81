//! A flush of everything that a shard holds, on request or at a stop.

use std::collections::VecDeque;

use tokio::sync::oneshot;

/// A flush of everything that a shard holds.
#[derive(Debug)]
pub(super) struct FlushAll {
    /// True to flush all slots; false at a stop, which flushes only what `Shard::last_extent` says.
    pub(super) slots: bool,
    /// Heads still to be flushed.
    pub(super) order: VecDeque<u32>,
    /// Heads whose flush is in flight.
    pub(super) sent: VecDeque<u32>,
    /// Late points with a later journal sequence need not be stored; `None` waits for all late points.
    pub(super) sequence: Option<u64>,
    pub(super) done: Vec<oneshot::Sender<()>>,
}

impl FlushAll {
    /// Heads that are not flushed yet.
    pub(super) fn left(&self) -> u64 {
        (self.order.len() + self.sent.len()) as u64
    }

    /// True while no other flush may be built.
    pub(super) fn goes_first(&self) -> bool {
        !self.slots || !self.order.is_empty()
    }
}
