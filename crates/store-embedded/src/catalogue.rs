//! The catalogue: the list of buckets and layers.
//!
//! A stage's time is divided into buckets of equal length. A bucket holds layers, oldest first. Where
//! several layers have a value for a slot, the newest one counts. Flushes write to a bucket's newest fresh
//! layer. A merge replaces the layers of a bucket by one merged layer; rows written meanwhile go to a new
//! fresh layer on top.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fjall::Keyspace;
use plumbago_model::{MetricId, Stage};
use plumbago_store::BlockLayout;

/// Maximum number of slots in a long block: a day at a resolution of one minute, which a query decodes in
/// about 10 µs.
const MERGED_SLOTS_MAX: u32 = 1440;

/// At this number of keyspaces, no more buckets are added: fjall hangs when it opens more than 1000
/// keyspaces.
pub(crate) const KEYSPACES_MAX: usize = 800;

/// A stage and its role. The same stage may be raw for one metric and coarse for another, with different
/// rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StageKey {
    pub(crate) stage: Stage,
    pub(crate) coarse: bool,
}

/// All stages and their buckets.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) stages: HashMap<StageKey, Arc<StageBuckets>>,
}

/// The buckets of a stage.
#[derive(Debug, Clone)]
pub(crate) struct StageBuckets {
    pub(crate) key: StageKey,
    pub(crate) bucket_slots: u32,
    pub(crate) buckets: BTreeMap<u32, Bucket>,
}

/// The layers of one time span.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bucket {
    /// The layers, the oldest first.
    pub(crate) layers: Vec<Arc<Layer>>,
    /// How many of the oldest layers are being merged and accept no more writes.
    pub(crate) frozen: usize,
    /// Whether a merge found damaged rows. Such a bucket is not merged again, so that its sound rows stay
    /// readable.
    pub(crate) damaged: bool,
}

/// One layer of a bucket: a keyspace with rows.
pub(crate) struct Layer {
    pub(crate) keyspace: Keyspace,
    pub(crate) kind: Kind,
    pub(crate) coarse: bool,
    /// The first slot of the bucket.
    pub(crate) bucket_start: u32,
    /// The time at which this process last wrote to the layer, in seconds since the epoch.
    pub(crate) written: AtomicI64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A layer for flushes, with the blocks as the engine writes them.
    Fresh { block_slots: u32, since: i64 },
    /// A layer of long blocks, which are numbered from the start of the bucket.
    Merged { block_slots: u32 },
}

impl Catalogue {
    /// The layers of all buckets of all stages.
    pub(crate) fn layers(&self) -> impl Iterator<Item = &Arc<Layer>> {
        self.stages.values().flat_map(|stage| stage.buckets.values()).flat_map(|bucket| &bucket.layers)
    }
}

impl StageKey {
    /// The name of the stage in keys and in names of keyspaces.
    pub(crate) fn label(&self) -> String {
        let role = if self.coarse { 'c' } else { 'r' };
        format!("{role}{}s{}", self.stage.resolution, self.stage.points)
    }

    pub(crate) fn parse(label: &str) -> Option<Self> {
        let coarse = match label.chars().next()? {
            'c' => true,
            'r' => false,
            _ => return None,
        };
        let (resolution, points) = label[1..].split_once('s')?;
        let stage = Stage { resolution: resolution.parse().ok()?, points: points.parse().ok()? };
        (stage.resolution > 0).then_some(Self { stage, coarse })
    }

    /// The length of this stage's buckets in slots. The more stages there are, the fewer buckets each gets,
    /// so that all together need fewer than 300 keyspaces.
    pub(crate) fn choose_bucket_slots(&self, stages_before: usize, block_slots: u32) -> u32 {
        let buckets = match stages_before {
            0..12 => 12,
            12..20 => 8,
            20..40 => 4,
            _ => 2,
        };
        let slots = self.stage.points.div_ceil(buckets).max(4 * block_slots);
        let day = 86_400 / self.stage.resolution;
        if day > 1 && slots > day / 2 {
            slots.next_multiple_of(day)
        } else {
            slots.next_multiple_of(block_slots)
        }
    }
}

impl StageBuckets {
    pub(crate) fn new(key: StageKey, bucket_slots: u32) -> Self {
        Self { key, bucket_slots, buckets: BTreeMap::new() }
    }

    pub(crate) fn bucket_of(&self, slot: u32) -> u32 {
        slot / self.bucket_slots
    }

    pub(crate) fn start_of(&self, bucket: u32) -> u32 {
        bucket.saturating_mul(self.bucket_slots)
    }

    /// The first slot after the bucket.
    pub(crate) fn end_of(&self, bucket: u32) -> u64 {
        (u64::from(bucket) + 1) * u64::from(self.bucket_slots)
    }

    /// Whether the retention of the bucket's last slot has passed.
    pub(crate) fn is_expired(&self, bucket: u32, now: i64) -> bool {
        let stage = self.key.stage;
        let end = self.end_of(bucket) * u64::from(stage.resolution);
        i64::try_from(end + stage.duration()).is_ok_and(|gone| gone < now)
    }

    /// The length of merged blocks in slots: equal parts of the bucket.
    pub(crate) fn merged_slots(&self) -> u32 {
        self.bucket_slots.div_ceil(self.bucket_slots.div_ceil(MERGED_SLOTS_MAX))
    }
}

impl Bucket {
    /// The layer that accepts writes, if its block length suits runs of `block_slots`.
    pub(crate) fn live(&self, block_slots: Option<u32>) -> Option<&Arc<Layer>> {
        let layer = self.layers.get(self.frozen..)?.last()?;
        match layer.kind {
            Kind::Fresh { block_slots: slots, .. } if block_slots.is_none_or(|wanted| wanted == slots) => {
                Some(layer)
            }
            _ => None,
        }
    }
}

impl Layer {
    pub(crate) fn block_slots(&self) -> u32 {
        match self.kind {
            Kind::Fresh { block_slots, .. } | Kind::Merged { block_slots } => block_slots,
        }
    }

    /// The first slot of a metric's block number 0.
    fn origin(&self, id: &MetricId) -> i64 {
        match self.kind {
            Kind::Fresh { block_slots, .. } if !self.coarse => {
                -i64::from(BlockLayout { raw_slots: block_slots }.phase(id))
            }
            Kind::Fresh { .. } => 0,
            Kind::Merged { .. } => i64::from(self.bucket_start),
        }
    }

    /// The number of the block that holds a slot of this bucket.
    pub(crate) fn block_of(&self, id: &MetricId, slot: u32) -> u32 {
        ((i64::from(slot) - self.origin(id)) / i64::from(self.block_slots())) as u32
    }

    /// The first slot of a block.
    pub(crate) fn block_start(&self, id: &MetricId, number: u32) -> i64 {
        i64::from(number) * i64::from(self.block_slots()) + self.origin(id)
    }

    pub(crate) fn touch(&self, now: i64) {
        self.written.store(now, Ordering::Relaxed);
    }

    /// The line of the layer in the catalogue row of its bucket.
    pub(crate) fn to_line(&self) -> String {
        let name: &str = self.keyspace.name();
        match self.kind {
            Kind::Fresh { block_slots, since } => format!("fresh {name} {block_slots} {since}\n"),
            Kind::Merged { block_slots } => format!("merged {name} {block_slots} 0\n"),
        }
    }
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.to_line().trim_end())
    }
}

/// Parses a line of [`Layer::to_line`]: the name of the keyspace and the kind.
pub(crate) fn parse_layer(line: &str) -> Option<(&str, Kind)> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let name = words.next()?;
    let block_slots = words.next()?.parse().ok().filter(|n| *n > 0)?;
    let since = words.next()?.parse().ok()?;
    match kind {
        "fresh" => Some((name, Kind::Fresh { block_slots, since })),
        "merged" => Some((name, Kind::Merged { block_slots })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(resolution: u32, points: u32) -> StageKey {
        StageKey { stage: Stage { resolution, points }, coarse: false }
    }

    #[test]
    fn labels_round_trip() {
        for key in [key(60, 10_080), StageKey { coarse: true, ..key(3600, 8760) }] {
            assert_eq!(StageKey::parse(&key.label()), Some(key));
        }
        for wrong in ["", "r", "x60s1", "r60", "r0s5", "r60s", "é60s1"] {
            assert_eq!(StageKey::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn buckets_are_days_where_they_can_be_and_at_most_sixteen() {
        assert_eq!(key(60, 10_080).choose_bucket_slots(0, 30), 1440);
        assert_eq!(key(3600, 8760).choose_bucket_slots(1, 30), 744);
        assert_eq!(key(10, 2160).choose_bucket_slots(2, 30), 180);
        for (resolution, points) in [
            (1, 60),
            (1, 86_400),
            (10, 360),
            (10, 259_200),
            (60, 1440),
            (300, 105_120),
            (86_400, 3650),
            (60, 1),
        ] {
            for before in [0, 15, 30, 100] {
                let slots = key(resolution, points).choose_bucket_slots(before, 30);
                // Two more buckets: one that has expired in part, and one for points ahead of now.
                assert!(points.div_ceil(slots) + 2 <= 16, "{resolution}s:{points} in buckets of {slots}");
            }
        }
    }

    #[test]
    fn a_bucket_expires_with_its_last_slot() {
        let buckets = StageBuckets::new(key(60, 1440), 120);
        let end = 121 * 120 * 60;
        assert!(!buckets.is_expired(120, end + 86_400));
        assert!(buckets.is_expired(120, end + 86_401));
        assert!(!buckets.is_expired(u32::MAX, i64::from(u32::MAX)));
    }

    #[test]
    fn long_blocks_divide_the_bucket_evenly() {
        assert_eq!(StageBuckets::new(key(60, 10_080), 1440).merged_slots(), 1440);
        assert_eq!(StageBuckets::new(key(3600, 8760), 744).merged_slots(), 744);
        assert_eq!(StageBuckets::new(key(10, 259_200), 25_920).merged_slots(), 1440);
        assert_eq!(StageBuckets::new(key(10, 259_200), 1500).merged_slots(), 750);
    }
}
