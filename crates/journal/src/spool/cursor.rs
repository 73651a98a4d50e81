//! What the sender is handed.

use super::row::{HEADER_BYTES, Key, read_value};
use super::segment::{PARKED, Sums};
use super::shared::Shared;
use super::{Id, SpoolError};

/// How far the sender has come. Good for one run of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub(super) epoch: u64,
    pub(super) segment: u32,
    /// The last metric; none before the first.
    pub(super) id: Option<Id>,
}

/// A slice that is to be sent.
#[derive(Debug, Clone)]
pub struct SpooledSlice {
    /// The metric.
    pub id: Id,
    /// Its timestamp.
    pub timestamp_us: i64,
    /// How many rows it holds.
    pub rows: u32,
    value: fjall::Slice,
}

impl SpooledSlice {
    /// The rows.
    pub fn bytes(&self) -> &[u8] {
        self.value.get(HEADER_BYTES..).unwrap_or_default()
    }
}

/// Slices of whole metrics, by metric and then by commit.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The slices.
    pub slices: Vec<SpooledSlice>,
    /// The newest timestamp of their segment. All may be sent under it: every later slice of a metric
    /// has a later timestamp, and it is the same one whenever they are sent again.
    pub timestamp_us: i64,
    /// Give this to the next call of [`crate::Spool::next_chunk`].
    pub end: Position,
    pub(super) sums: Sums,
}

impl Shared {
    pub(super) fn next_chunk(
        &self,
        after: Option<Position>,
        most_bytes: usize,
    ) -> Result<Option<Chunk>, SpoolError> {
        let start = self.start_of(after);
        let mut at = start;
        while self.await_segment(at.segment)? {
            let chunk = self.read_chunk(at, most_bytes)?;
            if !chunk.slices.is_empty() {
                return Ok(Some(chunk));
            }
            at = chunk.end;
        }
        // What has become empty is acknowledged with the next chunk, or now when none is on its way.
        if at != start && self.start_of(None) == start {
            self.pass(at)?;
        }
        Ok(None)
    }

    /// The slices behind `at` in its segment.
    fn read_chunk(&self, at: Position, most_bytes: usize) -> Result<Chunk, SpoolError> {
        let from = match at.id {
            Some(id) => Key { segment: at.segment, id: next_id(id), timestamp_us: 0 },
            None => Key::first(at.segment, [0; 16]),
        };
        let mut slices: Vec<SpooledSlice> = Vec::new();
        let mut sums = Sums::default();
        let mut is_whole = true;
        let exhausted = at.id == Some([u8::MAX; 16]);
        if !exhausted {
            self.visit(from, Key::end(at.segment), &mut |key, value| {
                let fits = (sums.bytes as usize) < most_bytes;
                if !fits && slices.last().is_some_and(|last| last.id != key.id) {
                    is_whole = false;
                    return false;
                }
                let bytes = (Key::BYTES + value.len()) as u64;
                match read_value(&value) {
                    Some((rows, _)) => {
                        sums.add(Sums { bytes, slices: 1, rows: u64::from(rows) });
                        let Key { id, timestamp_us, .. } = key;
                        slices.push(SpooledSlice { id, timestamp_us, rows, value });
                    }
                    None => self.report_damage(&key, "its value is no slice"),
                }
                true
            })?;
        }
        let end = match slices.last() {
            Some(last) if !is_whole => Position { id: Some(last.id), ..at },
            _ => Position { segment: at.segment + 1, id: None, ..at },
        };
        Ok(Chunk { slices, timestamp_us: self.last_us_of(at.segment), end, sums })
    }
}

impl Shared {
    pub(super) fn next_parked(
        &self,
        after: Option<&SpooledSlice>,
        most_bytes: usize,
    ) -> Result<Vec<SpooledSlice>, SpoolError> {
        let from = after.map_or(Key::first(PARKED, [0; 16]), |slice| Key {
            segment: PARKED,
            id: slice.id,
            timestamp_us: slice.timestamp_us.saturating_add(1),
        });
        let mut slices = Vec::new();
        let mut bytes = 0;
        self.visit(from, Key::end(PARKED), &mut |key, value| {
            bytes += value.len();
            match read_value(&value) {
                Some((rows, _)) => {
                    let Key { id, timestamp_us, .. } = key;
                    slices.push(SpooledSlice { id, timestamp_us, rows, value });
                }
                None => self.report_damage(&key, "its value is no slice"),
            }
            bytes < most_bytes
        })?;
        if slices.is_empty() && after.is_none() {
            self.forget_parked()?;
        }
        Ok(slices)
    }
}

/// The id behind this one; the last stays where it is.
fn next_id(id: Id) -> Id {
    u128::from_be_bytes(id).saturating_add(1).to_be_bytes()
}
