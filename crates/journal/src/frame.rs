//! Frames: groups of records with one checksum. `docs/formats/journal.md` describes their bytes.
//!
//! A frame has an area of points, 16 bytes each, and an area of events (creations and removals). Each event
//! states its position among all records of the frame. The points fill the other positions in order. The
//! record at position `i` has the sequence number `first + i`.

use crate::Record;

/// Largest size of a frame in bytes, unless a single record is longer.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Largest number of records in a frame. As many sequence numbers are reserved for each frame.
pub(crate) const RECORDS_MAX: usize = 4096;

const VERSION: u8 = 1;
pub(crate) const HEADER_BYTES: usize = 24;
const CRC_AT: usize = 20;
pub(crate) const POINT_BYTES: usize = 16;
const EVENT_BYTES: usize = 12;
const CREATION: u8 = 1;
const REMOVAL: u8 = 2;

/// Frames start at multiples of this, with a [`Place`] before each.
pub(crate) const PLACE_BYTES: usize = 8;

/// The segment and file offset of a frame, stored in front of it. After damage, a search for the next frame
/// looks for this header, which stale bytes of another file do not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    segment: u32,
    /// The offset in units of [`PLACE_BYTES`].
    unit: u32,
}

impl Place {
    /// `None` if `at` is not a multiple of [`PLACE_BYTES`] or is too large for the stored 4 bytes.
    pub(crate) fn new(segment: u32, at: u64) -> Option<Self> {
        let unit = u32::try_from(at / PLACE_BYTES as u64).ok()?;
        at.is_multiple_of(PLACE_BYTES as u64).then_some(Self { segment, unit })
    }

    pub(crate) fn bytes(self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..4].copy_from_slice(&self.segment.to_le_bytes());
        bytes[4..].copy_from_slice(&self.unit.to_le_bytes());
        bytes
    }
}

/// Bytes that a frame of `len` bytes takes in a file, including its [`Place`] and the padding after it.
pub(crate) fn stored_len(len: usize) -> u64 {
    (PLACE_BYTES + len).next_multiple_of(PLACE_BYTES) as u64
}

/// Why a frame was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is shorter or longer than its header states.
    #[error("wrong length")]
    Length,
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// The frame has an unknown version, or a record of an unknown kind.
    #[error("unknown version or kind")]
    Kind,
    /// Parts of the frame contradict each other, or a name is not UTF-8.
    #[error("contradictory content")]
    Content,
}

/// Numbers of records in a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Number of points in the frame.
    pub points: usize,
    /// Number of creations and removals.
    pub events: usize,
}

/// Where the points start in [`Frame::bytes`].
const START: usize = PLACE_BYTES + HEADER_BYTES;

/// A frame that is being filled. Call [`Frame::begin`] first, which gives it sequence numbers.
#[derive(Debug)]
pub(crate) struct Frame {
    first: u64,
    records: u32,
    events: u32,
    /// The number of points for which there is still room.
    room: u32,
    /// Space for the place and the header, then the points.
    bytes: Vec<u8>,
    event_bytes: Vec<u8>,
}

impl Frame {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(PLACE_BYTES + FRAME_BYTES_MAX);
        bytes.resize(START, 0);
        Self { first: 0, records: 0, events: 0, room: 0, bytes, event_bytes: Vec::new() }
    }

    /// Empties the frame. New records get the sequence numbers `first` to `first + RECORDS_MAX - 1`.
    pub(crate) fn begin(&mut self, first: u64) {
        self.reset();
        self.first = first;
        self.measure();
    }

    pub(crate) fn reset(&mut self) {
        self.bytes.truncate(START);
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

    /// Whether no further point fits.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Whether a creation with this name fits.
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
        self.bytes.len() - PLACE_BYTES + self.event_bytes.len()
    }

    fn measure(&mut self) {
        let by_bytes = FRAME_BYTES_MAX.saturating_sub(self.len()) / POINT_BYTES;
        self.room = by_bytes.min(RECORDS_MAX - self.records as usize) as u32;
    }

    /// Calls `write` with the first sequence number and the encoded bytes. `write` fills in the place at
    /// their start. Afterwards the frame is unchanged and can still grow.
    pub(crate) fn with_encoded<R>(&mut self, write: impl FnOnce(u64, &mut [u8]) -> R) -> R {
        let points_end = self.bytes.len();
        self.bytes.extend_from_slice(&self.event_bytes);
        self.write_header();
        self.bytes.resize(self.bytes.len().next_multiple_of(PLACE_BYTES), 0);
        let result = write(self.first, &mut self.bytes);
        self.bytes.truncate(points_end);
        result
    }

    fn write_header(&mut self) {
        let points = self.points() as u16;
        let frame = &mut self.bytes[PLACE_BYTES..];
        let header = &mut frame[..HEADER_BYTES];
        header[0] = VERSION;
        header[1] = 0;
        header[2..4].copy_from_slice(&points.to_le_bytes());
        header[4..6].copy_from_slice(&(self.events as u16).to_le_bytes());
        header[6..8].fill(0);
        header[8..16].copy_from_slice(&self.first.to_le_bytes());
        header[16..20].copy_from_slice(&(self.event_bytes.len() as u32).to_le_bytes());
        let crc = checksum(frame);
        frame[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The checksum of a frame, computed over all bytes except the checksum itself.
fn checksum(value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&value[..CRC_AT]);
    hasher.update(&value[HEADER_BYTES..]);
    hasher.finalize()
}

/// Length in bytes of the frame with this header of [`HEADER_BYTES`] bytes. The header is not checked.
pub(crate) fn encoded_len(header: &[u8]) -> usize {
    HEADER_BYTES + usize::from(u16_at(header, 2)) * POINT_BYTES + u32_at(header, 16) as usize
}

/// The number of points that a header of [`HEADER_BYTES`] bytes states. `None` if the header is not valid.
pub(crate) fn points_in(header: &[u8]) -> Option<u64> {
    let (points, events, event_bytes) = (u16_at(header, 2), u16_at(header, 4), u32_at(header, 16));
    let records = usize::from(points) + usize::from(events);
    let is_right = header[..2] == [VERSION, 0]
        && header[6..8] == [0, 0]
        && (1..=RECORDS_MAX).contains(&records)
        && (events > 0) == (event_bytes > 0);
    is_right.then_some(u64::from(points))
}

/// The sequence number of the first record of an intact frame.
pub(crate) fn first_sequence(frame: &[u8]) -> u64 {
    u64_at(frame, 8)
}

/// Checks that a frame is intact.
///
/// # Errors
///
/// The kind of damage.
pub(crate) fn check(frame: &[u8]) -> Result<(), FrameError> {
    Parts::check(frame).map(|_| ())
}

/// Checks a frame and then visits its records in the order of their sequence numbers.
///
/// # Errors
///
/// The kind of damage, if the frame is damaged. In that case no record was visited.
pub fn visit_frame(frame: &[u8], visit: &mut dyn FnMut(Record<'_>)) -> Result<FrameCounts, FrameError> {
    let parts = Parts::check(frame)?;
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

/// Visits the points with sequence numbers below `until`.
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
    fn check(value: &'a [u8]) -> Result<Self, FrameError> {
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
        parts.check_order()?;
        Ok(parts)
    }

    /// Checks that the positions of the events increase and lie within the frame.
    fn check_order(&self) -> Result<(), FrameError> {
        let records = self.point_count + self.event_count;
        if self.first.checked_add(records as u64).is_none() {
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

/// Iterates over the events of an area. Stops after the first error.
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
