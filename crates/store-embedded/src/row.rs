//! Rows of points: encodes a block of a metric as bytes.
//!
//! Key: 16-byte id, big-endian number of the block. Value: in coarse stages the column of counts, then the
//! column of values, then a checksum over key and columns.

use plumbago_model::{MetricId, codec};
use plumbago_store::RowCount;

use crate::long_block::{self, Damaged};

pub(crate) const KEY_BYTES: usize = 20;

/// fjall has checksums of its own; this checksum detects damage that happens outside of those. With three
/// bytes it misses one damaged row in 16 million.
const CHECK_BYTES: usize = 3;

pub(crate) type Key = [u8; KEY_BYTES];

pub(crate) fn key(id: &MetricId, number: u32) -> Key {
    let mut key = [0; KEY_BYTES];
    key[..16].copy_from_slice(&id.0);
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Parses a key: metric, number of the block. `None` if it is not the key of a block.
pub(crate) fn parse_key(bytes: &[u8]) -> Option<(MetricId, u32)> {
    let (id, number) = bytes.split_first_chunk::<16>()?;
    Some((MetricId(*id), u32::from_be_bytes(number.try_into().ok()?)))
}

/// The slots of one block.
#[derive(Debug, Default, Clone)]
pub(crate) struct Block {
    pub(crate) values: Vec<f64>,
    /// Counts; as many as values in coarse stages, otherwise empty.
    pub(crate) counts: Vec<RowCount>,
    scratch: Vec<f64>,
}

impl Block {
    /// Resets the block to `len` unknown slots.
    pub(crate) fn reset(&mut self, len: usize, coarse: bool) {
        self.values.clear();
        self.values.resize(len, f64::NAN);
        self.counts.clear();
        self.counts.resize(if coarse { len } else { 0 }, RowCount::ZERO);
    }

    /// Replaces slots of this block by the known ones of `values`, starting at `at`.
    pub(crate) fn overlay(&mut self, at: usize, values: &[f64], counts: &[RowCount]) {
        overlay(&mut self.values[at..], values);
        if !self.counts.is_empty() {
            overlay_counts(&mut self.counts[at..], values, counts);
        }
    }

    /// Appends the row to `out`. With `effort`, long blocks may be compressed with pco.
    pub(crate) fn encode(&mut self, key: &Key, effort: Option<u8>, out: &mut Vec<u8>) {
        let start = out.len();
        if !self.counts.is_empty() {
            self.scratch.clear();
            let known = self.values.iter().zip(&self.counts);
            self.scratch.extend(known.map(|(v, c)| if v.is_nan() { f64::NAN } else { f64::from(c.get()) }));
            codec::encode(&self.scratch, out);
        }
        match effort {
            Some(effort) => long_block::encode(&self.values, effort, out),
            None => codec::encode(&self.values, out),
        }
        let check = checksum(key, &out[start..]);
        out.extend_from_slice(&check);
    }

    /// Reads a row of `len` slots. The block is unspecified after an error.
    pub(crate) fn decode(&mut self, key: &[u8], row: &[u8], len: usize, coarse: bool) -> Result<(), Damaged> {
        let (mut columns, check) = row.split_last_chunk::<CHECK_BYTES>().ok_or(Damaged)?;
        if checksum(key, columns) != *check {
            return Err(Damaged);
        }
        self.values.clear();
        self.counts.clear();
        if coarse {
            self.scratch.clear();
            let used = codec::decode(columns, len, &mut self.scratch).map_err(|_| Damaged)?;
            columns = &columns[used..];
            self.counts.extend(self.scratch.iter().map(|c| RowCount::new(*c as i32)));
        }
        long_block::decode(columns, len, &mut self.values)
    }
}

/// Replaces slots by known values.
pub(crate) fn overlay(to: &mut [f64], from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        if !from.is_nan() {
            *to = *from;
        }
    }
}

/// Replaces the counts of slots with known values.
pub(crate) fn overlay_counts(to: &mut [RowCount], values: &[f64], counts: &[RowCount]) {
    for ((to, value), count) in to.iter_mut().zip(values).zip(counts) {
        if !value.is_nan() {
            *to = *count;
        }
    }
}

fn checksum(key: &[u8], columns: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(columns);
    let [a, b, c, _] = hasher.finalize().to_le_bytes();
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(values: Vec<f64>, coarse: bool) -> Block {
        let count = |value: &f64| RowCount::new(if value.is_nan() { 0 } else { 60 });
        let counts = if coarse { values.iter().map(count).collect() } else { vec![] };
        Block { values, counts, scratch: vec![] }
    }

    proptest! {
        #[test]
        fn rows_round_trip_and_no_flipped_bit_passes(
            values in prop::collection::vec(prop_oneof![
                any::<f64>(), (0..1000_i32).prop_map(f64::from), Just(f64::NAN)
            ], 1..1500),
            coarse: bool, effort in prop::option::of(Just(3)), flip in any::<prop::sample::Index>(),
        ) {
            let key = key(&MetricId([7; 16]), 3);
            let mut written = block(values, coarse);
            let mut row = Vec::new();
            written.encode(&key, effort, &mut row);
            let mut read = Block::default();
            read.decode(&key, &row, written.values.len(), coarse).unwrap();
            prop_assert_eq!(&read.counts, &written.counts);
            for (a, b) in read.values.iter().zip(&written.values) {
                prop_assert!(a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits());
            }
            let bit = flip.index(row.len() * 8);
            row[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(read.decode(&key, &row, written.values.len(), coarse), Err(Damaged));
        }

        #[test]
        fn garbage_is_damage(row in prop::collection::vec(any::<u8>(), 0..100), coarse: bool) {
            let mut block = Block::default();
            // One damaged row in 16 million passes the checksum. Decoding must not panic even then.
            let _ = block.decode(&key(&MetricId([1; 16]), 1), &row, 30, coarse);
        }
    }

    #[test]
    fn a_row_under_another_key_is_damage() {
        let mut row = Vec::new();
        block(vec![1.0; 30], false).encode(&key(&MetricId([1; 16]), 1), None, &mut row);
        let mut read = Block::default();
        assert!(read.decode(&key(&MetricId([1; 16]), 1), &row, 30, false).is_ok());
        assert_eq!(read.decode(&key(&MetricId([1; 16]), 2), &row, 30, false), Err(Damaged));
    }

    #[test]
    fn keys_sort_by_metric_then_block() {
        let (a, b) = (MetricId([1; 16]), MetricId([2; 16]));
        assert!(key(&a, 255) < key(&a, 256) && key(&a, u32::MAX) < key(&b, 0));
        assert_eq!(parse_key(&key(&b, 77)), Some((b, 77)));
        assert_eq!(parse_key(b"short"), None);
    }
}
