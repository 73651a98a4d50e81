//! An archive at one moment: where its slots are in the file, and which of them are known.

use std::ops::Range;

use crate::{Archive, POINT_BYTES};

/// The slots of an archive that whisper shows at one moment. A file can be read through it piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    archive: Archive,
    /// The position of the oldest slot.
    place: u64,
    /// When the oldest slot begins, in seconds since the epoch.
    first: i64,
}

impl Ring {
    /// The ring of an archive at `now` (seconds since the epoch). `start` is its bytes, of which the first
    /// [`POINT_BYTES`] suffice. `None` if it has no point.
    pub fn new(archive: Archive, start: &[u8], now: i64) -> Option<Self> {
        let (base, _) = start.first_chunk().map_or((0, 0.0), point);
        if base == 0 {
            return None;
        }
        let (step, slots) = (i64::from(archive.stage.resolution), i64::from(archive.stage.points));
        let first = (now - archive.stage.duration() as i64).div_euclid(step) * step + step;
        let place = (first - i64::from(base)).div_euclid(step).rem_euclid(slots);
        Some(Self { archive, place: place as u64, first })
    }

    /// The two pieces of the file that hold the slots, in the order of time, as byte offsets. The second may be
    /// empty.
    pub fn pieces(&self) -> [Range<u64>; 2] {
        let start = u64::from(self.archive.offset);
        let oldest = start + self.place * POINT_BYTES as u64;
        [oldest..start + self.archive.bytes(), start..oldest]
    }

    /// The known points in `bytes`, which are whole slots of one piece and begin at this offset of the file.
    pub fn points<'a>(&self, offset: u64, bytes: &'a [u8]) -> Points<'a> {
        let slots = u64::from(self.archive.stage.points);
        let place = offset.saturating_sub(u64::from(self.archive.offset)) / POINT_BYTES as u64;
        let step = i64::from(self.archive.stage.resolution);
        let time = self.first + ((place + slots - self.place) % slots) as i64 * step;
        Points { bytes, time, step }
    }
}

/// The timestamp and the value in the bytes of a point.
fn point(bytes: &[u8; POINT_BYTES]) -> (u32, f64) {
    let [a, b, c, d, value @ ..] = *bytes;
    (u32::from_be_bytes([a, b, c, d]), f64::from_be_bytes(value))
}

/// Known slots of a part of an archive: the time at which each begins, in seconds since the epoch, and its value. The
/// value may be NaN, which whisper shows as unknown.
#[derive(Debug, Clone, Default)]
pub struct Points<'a> {
    bytes: &'a [u8],
    time: i64,
    step: i64,
}

impl Iterator for Points<'_> {
    type Item = (u32, f64);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some((bytes, rest)) = self.bytes.split_first_chunk() {
            let ((stored, value), time) = (point(bytes), self.time);
            self.bytes = rest;
            self.time += self.step;
            if i64::from(stored) == time && stored != 0 {
                return Some((stored, value));
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.bytes.len() / POINT_BYTES))
    }
}
