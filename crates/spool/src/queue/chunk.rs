//! What the queue hands to the sender: a position, and the slices up to the next one.

use super::Id;
use super::row::HEADER_BYTES;
use super::segment::Sums;

/// A position of the sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub(super) segment: u32,
    /// The last metric before the position; `None` at the start of the segment.
    pub(super) id: Option<Id>,
}

/// A slice read from the queue.
#[derive(Debug, Clone)]
pub struct SpooledSlice {
    /// The id of the metric.
    pub id: Id,
    /// The timestamp of its commit, in microseconds since the epoch.
    pub timestamp_us: i64,
    /// How many rows it holds.
    pub rows: u32,
    pub(super) value: fjall::Slice,
}

impl SpooledSlice {
    /// The encoded rows.
    pub fn bytes(&self) -> &[u8] {
        self.value.get(HEADER_BYTES..).unwrap_or_default()
    }
}

/// Slices of whole metrics, by metric and then by commit.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The slices.
    pub slices: Vec<SpooledSlice>,
    /// The newest timestamp of their segment, in microseconds since the epoch. All slices may be sent under
    /// it: later slices of a metric have later timestamps, and this timestamp is the same whenever the
    /// segment is sent again.
    pub timestamp_us: i64,
    /// The position after the chunk, for the next call of [`crate::Spool::next_chunk`].
    pub end: Position,
    pub(super) sums: Sums,
}

impl Chunk {
    /// Bytes that the slices take in the queue.
    pub fn bytes(&self) -> u64 {
        self.sums.bytes
    }
}
