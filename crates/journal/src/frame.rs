//! Frames: many records under one checksum. The bytes are described in `docs/formats/journal.md`.
//!
//! Points lie in an area of fixed 16-byte records, creations and removals in a second area; each of
//! the latter says which place in the frame it has, and points take the places that remain. The
//! record at place `i` has the sequence number `first + i`.

use std::ops::RangeInclusive;

use crate::Record;

/// Most bytes of a frame, unless one single record is longer.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Most records of a frame, and the sequence numbers that are reserved for one.
pub(crate) const RECORDS_MAX: usize = 4096;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 24;
const CRC_AT: usize = 20;
const POINT_BYTES: usize = 16;
const EVENT_BYTES: usize = 12;
const CREATION: u8 = 1;
const REMOVAL: u8 = 2;

/// Under what a frame is stored; in the order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) segment: u32,
    pub(crate) first_sequence: u64,
}

impl Key {
    const BYTES: usize = 12;

    pub(crate) fn new(segment: u32, first_sequence: u64) -> Self {
        Self { segment, first_sequence }
    }

    /// All keys of a segment.
    pub(crate) fn all_of(segment: u32) -> RangeInclusive<Self> {
        Self::new(segment, 0)..=Self::new(segment, u64::MAX)
    }

    pub(crate) fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.segment.to_be_bytes());
        bytes[4..].copy_from_slice(&self.first_sequence.to_be_bytes());
        bytes
    }

    /// `None` for a key that is not ours.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (segment, first_sequence) = bytes.split_at_checked(4)?;
        Some(Self {
            segment: u32::from_be_bytes(segment.try_into().ok()?),
            first_sequence: u64::from_be_bytes(first_sequence.try_into().ok()?),
        })
    }

    /// Its place among all keys.
    pub(crate) fn number(self) -> u128 {
        u128::from(self.segment) << 64 | u128::from(self.first_sequence)
    }

    pub(crate) fn from_number(number: u128) -> Self {
        Self { segment: (number >> 64) as u32, first_sequence: number as u64 }
    }
}

/// Why a frame was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Shorter than its header says, or longer.
    #[error("wrong length")]
    Length,
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// A version or record kind from another time.
    #[error("unknown version or kind")]
    Kind,
    /// Parts of it contradict each other.
    #[error("contradictory content")]
    Content,
}

/// What a frame held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Points.
    pub points: usize,
    /// Creations and removals.
    pub events: usize,
}

/// A frame being filled. It has no number until [`Frame::begin`].
#[derive(Debug)]
pub(crate) struct Frame {
    first: u64,
    records: u32,
    events: u32,
    /// Points that still fit.
    room: u32,
    /// The header's place, then the points.
    bytes: Vec<u8>,
    event_bytes: Vec<u8>,
}

impl Frame {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(FRAME_BYTES_MAX);
        bytes.resize(HEADER_BYTES, 0);
        Self { first: 0, records: 0, events: 0, room: 0, bytes, event_bytes: Vec::new() }
    }

    /// Takes the numbers `first .. first + RECORDS_MAX` for the records to come.
    pub(crate) fn begin(&mut self, first: u64) {
        self.reset();
        self.first = first;
        self.measure();
    }

    pub(crate) fn reset(&mut self) {
        self.bytes.truncate(HEADER_BYTES);
        self.event_bytes.clear();
        self.records = 0;
        self.events = 0;
        self.room = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(crate) fn points(&self) -> usize {
        (self.records - self.events) as usize
    }

    /// True when not even one more point fits.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// True when a creation with this name fits.
    pub(crate) fn has_room_for(&self, name: &str) -> bool {
        let wanted = EVENT_BYTES + name.len();
        self.room > 0 && self.len() + wanted <= FRAME_BYTES_MAX
    }

    #[inline]
    pub(crate) fn push_point(&mut self, metric: u32, timestamp: u32, value: f64) -> u64 {
        let mut record = [0; POINT_BYTES];
        record[..4].copy_from_slice(&metric.to_le_bytes());
        record[4..8].copy_from_slice(&timestamp.to_le_bytes());
        record[8..].copy_from_slice(&value.to_le_bytes());
        self.bytes.extend_from_slice(&record);
        self.room = self.room.saturating_sub(1);
        self.take_number()
    }

    pub(crate) fn push_creation(&mut self, metric: u32, name: &str) -> u64 {
        self.push_event(CREATION, metric, name)
    }

    pub(crate) fn push_removal(&mut self, metric: u32) -> u64 {
        self.push_event(REMOVAL, metric, "")
    }

    fn push_event(&mut self, kind: u8, metric: u32, name: &str) -> u64 {
        let place = self.records as u16;
        self.event_bytes.extend_from_slice(&place.to_le_bytes());
        self.event_bytes.extend_from_slice(&[kind, 0]);
        self.event_bytes.extend_from_slice(&metric.to_le_bytes());
        self.event_bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        self.event_bytes.extend_from_slice(name.as_bytes());
        self.events += 1;
        let number = self.take_number();
        self.measure();
        number
    }

    #[inline]
    fn take_number(&mut self) -> u64 {
        let number = self.first + u64::from(self.records);
        self.records += 1;
        number
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.event_bytes.len()
    }

    fn measure(&mut self) {
        let by_bytes = FRAME_BYTES_MAX.saturating_sub(self.len()) / POINT_BYTES;
        self.room = by_bytes.min(RECORDS_MAX - self.records as usize) as u32;
    }

    /// Gives first number and bytes to `write`; afterwards the frame is as before and can still grow.
    pub(crate) fn with_encoded<R>(&mut self, write: impl FnOnce(u64, &[u8]) -> R) -> R {
        let points_end = self.bytes.len();
        self.bytes.extend_from_slice(&self.event_bytes);
        self.write_header();
        let result = write(self.first, &self.bytes);
        self.bytes.truncate(points_end);
        result
    }

    fn write_header(&mut self) {
        let points = self.points() as u16;
        let header = &mut self.bytes[..HEADER_BYTES];
        header[0] = VERSION;
        header[1] = 0;
        header[2..4].copy_from_slice(&points.to_le_bytes());
        header[4..6].copy_from_slice(&(self.events as u16).to_le_bytes());
        header[6..8].fill(0);
        header[8..16].copy_from_slice(&self.first.to_le_bytes());
        header[16..20].copy_from_slice(&(self.event_bytes.len() as u32).to_le_bytes());
        let crc = checksum(&self.bytes);
        self.bytes[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The checksum of everything but its own place.
fn checksum(value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&value[..CRC_AT]);
    hasher.update(&value[HEADER_BYTES..]);
    hasher.finalize()
}

/// Checks a stored frame and only then visits its records, in the order of their numbers. A damaged
/// frame yields no record at all.
pub fn visit_frame(
    key: &[u8],
    value: &[u8],
    visit: &mut dyn FnMut(Record<'_>),
) -> Result<FrameCounts, FrameError> {
    let parts = Parts::check(key, value)?;
    let mut points = parts.points.chunks_exact(POINT_BYTES);
    let mut sequence = parts.first;
    for event in Events(parts.events) {
        let event = event?;
        let at = parts.first + u64::from(event.place);
        visit_points(&mut points, &mut sequence, at, visit);
        visit(match event.kind {
            CREATION => Record::Creation { sequence, metric: event.metric, name: event.name },
            _ => Record::Removal { sequence, metric: event.metric },
        });
        sequence += 1;
    }
    visit_points(&mut points, &mut sequence, u64::MAX, visit);
    Ok(FrameCounts { points: parts.point_count, events: parts.event_count })
}

/// Visits points until the one numbered `until`, which is left.
fn visit_points<'a>(
    points: &mut impl Iterator<Item = &'a [u8]>,
    sequence: &mut u64,
    until: u64,
    visit: &mut dyn FnMut(Record<'_>),
) {
    while *sequence < until {
        let Some(record) = points.next() else { return };
        visit(Record::Point {
            sequence: *sequence,
            metric: u32_at(record, 0),
            timestamp: u32_at(record, 4),
            value: f64::from_bits(u64_at(record, 8)),
        });
        *sequence += 1;
    }
}

struct Parts<'a> {
    first: u64,
    point_count: usize,
    event_count: usize,
    points: &'a [u8],
    events: &'a [u8],
}

impl<'a> Parts<'a> {
    fn check(key: &[u8], value: &'a [u8]) -> Result<Self, FrameError> {
        if value.len() < HEADER_BYTES {
            return Err(FrameError::Length);
        }
        if checksum(value) != u32_at(value, CRC_AT) {
            return Err(FrameError::Checksum);
        }
        if value[0] != VERSION || value[1] != 0 {
            return Err(FrameError::Kind);
        }
        let point_count = usize::from(u16_at(value, 2));
        let event_count = usize::from(u16_at(value, 4));
        let events_at = HEADER_BYTES + point_count * POINT_BYTES;
        if value.len() as u64 != events_at as u64 + u64::from(u32_at(value, 16)) {
            return Err(FrameError::Length);
        }
        let (head, events) = value.split_at(events_at);
        let parts =
            Self { first: u64_at(value, 8), point_count, event_count, points: &head[HEADER_BYTES..], events };
        parts.check_order(key)?;
        Ok(parts)
    }

    /// The key repeats the first number; places of events rise and lie in the frame.
    fn check_order(&self, key: &[u8]) -> Result<(), FrameError> {
        let records = self.point_count + self.event_count;
        if Key::read(key).is_none_or(|key| key.first_sequence != self.first)
            || self.first.checked_add(records as u64).is_none()
        {
            return Err(FrameError::Content);
        }
        let mut next_place = 0;
        let mut found = 0;
        for event in Events(self.events) {
            let place = usize::from(event?.place);
            if place < next_place || place >= records {
                return Err(FrameError::Content);
            }
            next_place = place + 1;
            found += 1;
        }
        if found == self.event_count { Ok(()) } else { Err(FrameError::Content) }
    }
}

struct Event<'a> {
    place: u16,
    kind: u8,
    metric: u32,
    name: &'a str,
}

/// The events of an area; ends after an error.
struct Events<'a>(&'a [u8]);

impl<'a> Events<'a> {
    fn take(&mut self) -> Result<Event<'a>, FrameError> {
        let (head, rest) = self.0.split_at_checked(EVENT_BYTES).ok_or(FrameError::Length)?;
        let (name, rest) = rest.split_at_checked(u32_at(head, 8) as usize).ok_or(FrameError::Length)?;
        if !matches!(head[2], CREATION | REMOVAL) || head[3] != 0 {
            return Err(FrameError::Kind);
        }
        self.0 = rest;
        let name = std::str::from_utf8(name).map_err(|_| FrameError::Content)?;
        Ok(Event { place: u16_at(head, 0), kind: head[2], metric: u32_at(head, 4), name })
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let event = self.take();
        if event.is_err() {
            self.0 = &[];
        }
        Some(event)
    }
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut buffer = [0; 4];
    buffer.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(buffer)
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut buffer = [0; 8];
    buffer.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(buffer)
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
