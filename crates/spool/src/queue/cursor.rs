//! Slices for the sender, in the order in which they are sent.

use super::Id;
use super::chunk::{Chunk, Position, SpooledSlice};
use super::lock;
use super::row::{Key, read_value};
use super::segment::Sums;
use super::shared::Shared;
use crate::SpoolError;

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
                lock(&self.segments).read = at.segment;
                return Ok(Some(chunk));
            }
            at = chunk.end;
        }
        // Segments that became empty are acknowledged with the next chunk, or now if no chunk is in flight.
        if at != start && self.start_of(None) == start {
            self.pass(at)?;
        }
        Ok(None)
    }

    /// Reads the slices after `at` in its segment.
    pub(super) fn read_chunk(&self, at: Position, most_bytes: usize) -> Result<Chunk, SpoolError> {
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
                match read_value(&value) {
                    Some((rows, _)) => {
                        sums.add(Sums::of_slice(value.len(), rows));
                        let Key { id, timestamp_us, .. } = key;
                        slices.push(SpooledSlice { id, timestamp_us, rows, value });
                    }
                    None => self.report_damage(&key, "its value is not a slice"),
                }
                true
            })?;
        }
        let end = match slices.last() {
            Some(last) if !is_whole => Position { id: Some(last.id), ..at },
            _ => Position { segment: at.segment + 1, id: None },
        };
        Ok(Chunk { slices, timestamp_us: self.last_us_of(at.segment), end, sums })
    }
}

/// The id after this one; for the largest id, that id itself.
fn next_id(id: Id) -> Id {
    u128::from_be_bytes(id).saturating_add(1).to_be_bytes()
}
