//! The header of a checkpoint: which store and journal it belongs to, and what all its metrics share.

use std::ops::Range;
use std::sync::Arc;

use plumbago_journal::SegmentInfo;
use plumbago_model::MetricConfig;

use crate::bytes::{take, take_slice, take_u32, take_u64};

/// The first frame of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    /// The stamp of the checkpoint. The store has recorded the same stamp.
    pub(crate) stamp: [u8; 16],
    /// The seed of the hash that distributes names over the shards.
    pub(crate) seed: u64,
    /// The number of slots in a raw block.
    pub(crate) block_slots: u32,
    /// The last journal sequence that was assigned or reserved.
    pub(crate) sequence: u64,
    /// The current journal segment at the stop.
    pub(crate) segment: u32,
    /// The live segments of the journal.
    pub(crate) segments: Vec<SegmentInfo>,
    /// The header of each shard.
    pub(crate) shards: Vec<ShardHeader>,
    /// The settings of the metrics. A metric refers to its settings by their position in this list.
    pub(crate) configs: Vec<Arc<MetricConfig>>,
    /// The numbers that new metrics may get, as ranges in descending order.
    pub(crate) numbers: Vec<Range<u32>>,
}

/// What the header says about a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardHeader {
    /// Number of metrics.
    pub(crate) metrics: u64,
    /// Number of points that the shard's heads hold, including future points.
    pub(crate) held: u64,
}

impl Header {
    /// The number of metrics of all shards.
    pub(crate) fn metrics(&self) -> u64 {
        self.shards.iter().map(|shard| shard.metrics).sum()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(&self.stamp);
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.extend_from_slice(&self.block_slots.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.segment.to_le_bytes());
        put_count(&mut out, self.segments.len());
        for segment in &self.segments {
            out.extend_from_slice(&segment.number.to_le_bytes());
            out.extend_from_slice(&segment.first_sequence.to_le_bytes());
            out.extend_from_slice(&segment.bytes.to_le_bytes());
        }
        put_count(&mut out, self.shards.len());
        for shard in &self.shards {
            out.extend_from_slice(&shard.metrics.to_le_bytes());
            out.extend_from_slice(&shard.held.to_le_bytes());
        }
        put_count(&mut out, self.configs.len());
        for config in &self.configs {
            let text = config.to_text();
            put_count(&mut out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
        put_count(&mut out, self.numbers.len());
        for range in &self.numbers {
            out.extend_from_slice(&range.start.to_le_bytes());
            out.extend_from_slice(&range.end.to_le_bytes());
        }
        out
    }

    /// Decodes a header; `None` if the bytes are not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let rest = &mut rest;
        let header = Self {
            stamp: take(rest)?,
            seed: take_u64(rest)?,
            block_slots: take_u32(rest)?,
            sequence: take_u64(rest)?,
            segment: take_u32(rest)?,
            segments: list(rest, |rest| {
                let (number, first_sequence) = (take_u32(rest)?, take_u64(rest)?);
                Some(SegmentInfo { number, first_sequence, bytes: take_u64(rest)? })
            })?,
            shards: list(rest, |rest| Some(ShardHeader { metrics: take_u64(rest)?, held: take_u64(rest)? }))?,
            configs: list(rest, |rest| {
                let len = take_u32(rest)? as usize;
                let text = std::str::from_utf8(take_slice(rest, len)?).ok()?;
                MetricConfig::from_text(text).map(Arc::new)
            })?,
            numbers: list(rest, |rest| Some(take_u32(rest)?..take_u32(rest)?))?,
        };
        rest.is_empty().then_some(header)
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn list<'a, T>(rest: &mut &'a [u8], mut one: impl FnMut(&mut &'a [u8]) -> Option<T>) -> Option<Vec<T>> {
    (0..take_u32(rest)?).map(|_| one(rest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_its_round_trip() {
        let config = MetricConfig {
            retention: "60s:1d,1h:1y".parse().unwrap(),
            aggregation: "max".parse().unwrap(),
            x_files_factor: 0.25,
        };
        let header = Header {
            stamp: [7; 16],
            seed: 1 << 60,
            block_slots: 120,
            sequence: 1 << 41,
            segment: 9,
            segments: vec![SegmentInfo { number: 8, first_sequence: 1, bytes: 4096 }],
            shards: vec![ShardHeader { metrics: 3, held: 5 }, ShardHeader { metrics: 0, held: 0 }],
            configs: vec![Arc::new(config)],
            numbers: vec![9..1 << 28, 2..5],
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header.clone()));
        assert_eq!(header.metrics(), 3);
        for cut in 0..bytes.len() {
            assert_eq!(Header::decode(&bytes[..cut]), None, "{cut}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Header::decode(&longer), None);
    }
}
