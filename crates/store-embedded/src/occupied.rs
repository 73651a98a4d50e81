//! Which parts of a range have rows: the keys say so, without reading or decoding what the rows hold.

use std::ops::Range;

use plumbago_store::{SlotRange, joined};

use crate::catalogue::{Layer, StageKey};
use crate::locks::read;
use crate::open::Open;
use crate::row::{key, parse_key};

/// The parts of a range that have rows, in order and without overlaps.
pub(crate) fn occupied(open: &Open, range: &SlotRange) -> Vec<Range<u32>> {
    let key = StageKey { stage: range.stage, coarse: range.stage_index > 0 };
    let stage = read(&open.catalogue).stages.get(&key).cloned();
    let Some(stage) = stage.filter(|_| range.from < range.until) else { return Vec::new() };
    let buckets = stage.bucket_of(range.from)..=stage.bucket_of(range.until - 1);
    let mut all = Vec::new();
    for (number, bucket) in stage.buckets.range(buckets) {
        let from = range.from.max(stage.start_of(*number));
        let until = stage.end_of(*number).min(u64::from(range.until)) as u32;
        let mut parts = Vec::new();
        bucket.layers.iter().for_each(|layer| of_layer(layer, range, &(from..until), &mut parts));
        all.extend(joined(parts));
    }
    joined(all)
}

/// Adds the blocks that a layer has of the metric within these slots.
fn of_layer(layer: &Layer, range: &SlotRange, slots: &Range<u32>, parts: &mut Vec<Range<u32>>) {
    let (first, last) = (layer.block_of(&range.id, slots.start), layer.block_of(&range.id, slots.end - 1));
    for row in layer.keyspace.range(key(&range.id, first)..=key(&range.id, last)) {
        let Ok(key) = row.key() else {
            // The damage is reported when the slots are read.
            return parts.push(slots.clone());
        };
        let Some((_, number)) = parse_key(&key) else { continue };
        let start = layer.block_start(&range.id, number);
        let end = start + i64::from(layer.block_slots());
        let within = |slot: i64| slot.clamp(i64::from(slots.start), i64::from(slots.end)) as u32;
        parts.push(within(start)..within(end));
    }
}
