//! Keys and values of the spool's rows; see `docs/formats/spool.md`.

use super::Id;

/// The value's version.
const VERSION: u8 = 1;

/// Size of the header at the start of a slice's value, in bytes.
pub(super) const HEADER_BYTES: usize = 5;

/// The key of a slice: segment, metric, commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) segment: u32,
    pub(super) id: Id,
    pub(super) timestamp_us: i64,
}

impl Key {
    pub(super) const BYTES: usize = 28;

    /// The smallest key of a metric in a segment.
    pub(super) fn first(segment: u32, id: Id) -> Self {
        Self { segment, id, timestamp_us: 0 }
    }

    /// The largest key of a metric in a segment.
    pub(super) fn last(segment: u32, id: Id) -> Self {
        Self { segment, id, timestamp_us: i64::MAX }
    }

    /// The largest key of a segment.
    pub(super) fn end(segment: u32) -> Self {
        Self::last(segment, [u8::MAX; 16])
    }

    pub(super) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.segment.to_be_bytes());
        bytes[4..20].copy_from_slice(&self.id);
        bytes[20..].copy_from_slice(&self.timestamp_us.to_be_bytes());
        bytes
    }

    /// Reads a key; `None` when it is not one of a slice.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (segment, rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let timestamp_us = i64::from_be_bytes(rest.try_into().ok()?);
        Some(Self { segment: u32::from_be_bytes(*segment), id: *id, timestamp_us })
    }

    /// The segment of the key that starts with these bytes; 0 when they are too few.
    pub(super) fn segment_of(bytes: &[u8]) -> u32 {
        bytes.first_chunk().map_or(0, |segment| u32::from_be_bytes(*segment))
    }
}

/// The value of a slice.
pub(super) fn value(rows: u32, bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER_BYTES + bytes.len());
    value.push(VERSION);
    value.extend_from_slice(&rows.to_le_bytes());
    value.extend_from_slice(bytes);
    value
}

/// The number of rows and the caller's bytes; `None` when the value is not one of a slice.
pub(super) fn read_value(value: &[u8]) -> Option<(u32, &[u8])> {
    let (version, rest) = value.split_first()?;
    let (rows, bytes) = rest.split_first_chunk()?;
    (*version == VERSION).then(|| (u32::from_le_bytes(*rows), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_segment_metric_and_time() {
        let keys = [
            Key::first(0, [9; 16]),
            Key { segment: 1, id: [1; 16], timestamp_us: 500 },
            Key { segment: 1, id: [1; 16], timestamp_us: 1 << 50 },
            Key { segment: 1, id: [2; 16], timestamp_us: 3 },
            Key::end(1),
            Key::first(2, [0; 16]),
        ];
        for pair in keys.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].bytes() < pair[1].bytes());
            assert_eq!(Key::read(&pair[0].bytes()), Some(pair[0]));
        }
        assert_eq!(Key::read(&[1; 27]), None);
    }

    #[test]
    fn values_say_what_they_are() {
        assert_eq!(read_value(&value(7, b"xy")), Some((7, &b"xy"[..])));
        assert_eq!(read_value(&value(0, b"")), Some((0, &b""[..])));
        assert_eq!(read_value(&[2, 0, 0, 0, 0]), None);
        assert_eq!(read_value(&[1, 0]), None);
    }
}
