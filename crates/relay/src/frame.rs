//! The bytes of a queue file: frames of points, each with a checksum. See `docs/formats/relay.md`.

/// Number of bytes before the points of a frame: length, number of points, time, checksum.
pub(crate) const HEADER: usize = 16;
/// A frame is complete once its points have this many bytes.
pub(crate) const FRAME_BYTES: usize = 64 << 10;
/// Size of a point without its name, in bytes.
pub(crate) const POINT_BYTES: usize = 16;
/// Largest length that a header may state. Longer ones are damage: listeners limit names to far less.
const LENGTH_MAX: usize = 64 << 20;

/// A point of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point<'a> {
    pub(crate) name: &'a [u8],
    /// Seconds since the epoch.
    pub(crate) timestamp: u32,
    pub(crate) value: f64,
}

/// Adds a point to the points of a frame.
pub(crate) fn push(out: &mut Vec<u8>, point: Point<'_>) {
    out.extend_from_slice(&(point.name.len() as u32).to_le_bytes());
    out.extend_from_slice(&point.timestamp.to_le_bytes());
    out.extend_from_slice(&point.value.to_le_bytes());
    out.extend_from_slice(point.name);
}

/// The points of a frame.
#[derive(Debug, Clone)]
pub(crate) struct Points<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Points<'a> {
    type Item = Point<'a>;

    fn next(&mut self) -> Option<Point<'a>> {
        let (head, rest) = self.0.split_at_checked(POINT_BYTES)?;
        let (name, rest) = rest.split_at_checked(word(head, 0) as usize)?;
        self.0 = rest;
        let value = f64::from_le_bytes(head[8..16].try_into().ok()?);
        Some(Point { name, timestamp: word(head, 4), value })
    }
}

/// The header of a frame, before its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Size of the points, in bytes.
    pub(crate) length: usize,
    /// The number of points.
    pub(crate) points: u32,
    /// When they were accepted, in seconds since the epoch.
    pub(crate) time: u32,
    checksum: u32,
}

impl Header {
    /// Reads a header. `None` if the bytes cannot be one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let length = word(bytes, 0) as usize;
        let points = word(bytes, 4);
        let is_possible = points > 0 && length <= LENGTH_MAX && points as usize * POINT_BYTES <= length;
        is_possible.then(|| Self { length, points, time: word(bytes, 8), checksum: word(bytes, 12) })
    }

    /// Whether the header and the points after it are as they were written.
    pub(crate) fn matches(&self, frame: &[u8]) -> bool {
        frame.len() == HEADER + self.length && checksum(frame) == self.checksum
    }
}

/// Writes the header of a frame. Space for the header precedes the points.
pub(crate) fn seal(frame: &mut [u8], points: u32, time: u32) {
    let length = (frame.len() - HEADER) as u32;
    frame[0..4].copy_from_slice(&length.to_le_bytes());
    frame[4..8].copy_from_slice(&points.to_le_bytes());
    frame[8..12].copy_from_slice(&time.to_le_bytes());
    let sum = checksum(frame);
    frame[12..16].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..12]);
    hasher.update(&frame[HEADER..]);
    hasher.finalize()
}

/// The number at offset `at`. The slice must reach that far.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn points_come_back(points in prop::collection::vec(("[a-z.;=]{0,40}", any::<u32>(), any::<f64>()), 1..50)) {
            let mut frame = vec![0; HEADER];
            for (name, timestamp, value) in &points {
                push(&mut frame, Point { name: name.as_bytes(), timestamp: *timestamp, value: *value });
            }
            seal(&mut frame, points.len() as u32, 7);
            let header = Header::read(&frame).unwrap();
            prop_assert!(header.matches(&frame));
            prop_assert_eq!((header.points as usize, header.time), (points.len(), 7));
            let read: Vec<_> = Points(&frame[HEADER..])
                .map(|p| (String::from_utf8(p.name.to_vec()).unwrap(), p.timestamp, p.value.to_bits()))
                .collect();
            let written: Vec<_> = points.into_iter().map(|(n, t, v)| (n, t, v.to_bits())).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn a_changed_byte_is_seen(at in 0usize..60, bit in 0u8..8) {
            let mut frame = vec![0; HEADER];
            for name in ["a.b", "c"] {
                push(&mut frame, Point { name: name.as_bytes(), timestamp: 5, value: 1.5 });
            }
            seal(&mut frame, 2, 7);
            let at = at % frame.len();
            frame[at] ^= 1 << bit;
            let is_whole = Header::read(&frame).is_some_and(|header| header.matches(&frame));
            prop_assert!(!is_whole);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Header::read(&bytes);
            prop_assert!(Points(&bytes).count() <= bytes.len() / POINT_BYTES);
        }
    }
}
