//! Where a slot lies: its table, its partition of 2000 slots, its offset; and what a shard number means.

use plumbago_model::Stage;

/// Slots in a partition. BigGraphite means to use a minimum of six hours and compares seconds with
/// milliseconds, so that it comes out as 2000 always; the number is the format.
pub const PARTITION_SLOTS: u32 = 2000;

/// How long after its stage a point may come and still be kept, in seconds.
pub const OUT_OF_ORDER_SECONDS: u64 = 900;

/// Writer ids are 14 bits.
pub const WRITERS: u16 = 1 << 14;

/// How many consecutive writer ids one writer owns, so that counts beyond a `smallint` can be split.
pub const IDS_PER_WRITER: u16 = 8;

/// What a `smallint` count holds.
pub(crate) const COUNT_MAX: i32 = i16::MAX as i32;

/// The largest count that the rows of one writer hold together.
pub const COUNT_TOTAL_MAX: i32 = COUNT_MAX * IDS_PER_WRITER as i32;

/// One of the tables of points: a stage, and whether it holds raw points or windows. Metrics that
/// have the stage in common share the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Table {
    /// The stage.
    pub stage: Stage,
    /// True when the stage is not the first of its retention.
    pub coarse: bool,
}

impl Table {
    /// The table of a stage that has this place in its retention.
    pub fn new(stage: Stage, stage_index: u8) -> Self {
        Self { stage, coarse: stage_index > 0 }
    }

    /// Its name.
    pub fn name(&self) -> String {
        let suffix = if self.coarse { "aggr" } else { "0" };
        format!("datapoints_{}p_{}s_{suffix}", self.stage.points, self.stage.resolution)
    }

    /// BigGraphite's text for the stage, e.g. `10080*60s_aggr`.
    pub fn stage_text(&self) -> String {
        let suffix = if self.coarse { "aggr" } else { "0" };
        format!("{}*{}s_{suffix}", self.stage.points, self.stage.resolution)
    }

    /// Milliseconds that a partition spans.
    pub fn partition_ms(&self) -> i64 {
        i64::from(PARTITION_SLOTS) * 1000 * i64::from(self.stage.resolution)
    }

    /// Seconds that a row is kept, before any limit of the server.
    pub fn ttl(&self) -> u64 {
        self.stage.duration() + OUT_OF_ORDER_SECONDS
    }
}

/// A partition of a table: its first slot is a multiple of [`PARTITION_SLOTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(pub u32);

impl Partition {
    /// The partition that holds a slot.
    pub fn of(slot: u32) -> Self {
        Self(slot / PARTITION_SLOTS)
    }

    /// The value of `time_start_ms`.
    pub fn start_ms(self, stage: Stage) -> i64 {
        i64::from(self.first_slot()) * 1000 * i64::from(stage.resolution)
    }

    /// Its first slot.
    pub fn first_slot(self) -> u32 {
        self.0 * PARTITION_SLOTS
    }
}

/// The offset of a slot in its partition.
pub fn offset(slot: u32) -> i16 {
    (slot % PARTITION_SLOTS) as i16
}

/// The partitions that a range of slots touches, each with the part of the range that it holds as
/// offsets `from..until`.
pub fn partitions(from: u32, until: u32) -> impl Iterator<Item = (Partition, i16, i16)> {
    let last = until.max(1) - 1;
    let parts = if from < until { from / PARTITION_SLOTS..last / PARTITION_SLOTS + 1 } else { 0..0 };
    parts.map(move |part| {
        let first = part * PARTITION_SLOTS;
        let start = from.max(first) - first;
        let end = (until - first).min(PARTITION_SLOTS);
        (Partition(part), start as i16, end as i16)
    })
}

/// A shard as it is stored: replica and writer in a signed 16-bit number.
pub fn shard(replica: u8, writer: u16) -> i16 {
    (u16::from(replica & 3) << 14 | (writer % WRITERS)) as i16
}

/// The replica in a stored shard.
pub fn replica_of(shard: i16) -> u8 {
    (shard as u16 >> 14) as u8
}

/// The writer in a stored shard.
pub fn writer_of(shard: i16) -> u16 {
    shard as u16 % WRITERS
}

/// Splits a count into parts that a `smallint` holds, the first as full as it can be; at least one
/// part, at most [`IDS_PER_WRITER`]. What does not fit is left out; see [`fit`].
pub fn split_count(count: i32) -> impl Iterator<Item = i16> {
    let mut left = count.clamp(-COUNT_TOTAL_MAX, COUNT_TOTAL_MAX);
    let mut first = true;
    std::iter::from_fn(move || {
        if left == 0 && !first {
            return None;
        }
        first = false;
        let part = left.clamp(-COUNT_MAX, COUNT_MAX);
        left -= part;
        Some(part as i16)
    })
}

/// A window of an average whose count is beyond what the rows of a writer hold keeps its mean: the
/// sum shrinks with the count.
pub fn fit(value: f64, count: i32) -> f64 {
    if count <= COUNT_TOTAL_MAX { value } else { value / f64::from(count) * f64::from(COUNT_TOTAL_MAX) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_biggraphite() {
        let day = Stage { resolution: 1, points: 86_400 };
        let week = Stage { resolution: 60, points: 10_080 };
        assert_eq!(Table::new(day, 0).name(), "datapoints_86400p_1s_0");
        assert_eq!(Table::new(week, 1).name(), "datapoints_10080p_60s_aggr");
        assert_eq!(Table::new(week, 2).stage_text(), "10080*60s_aggr");
        assert_eq!(Table::new(week, 0).ttl(), 605_700);
    }

    #[test]
    fn the_worked_example() {
        let week = Stage { resolution: 60, points: 10_080 };
        let slot = week.slot(1_500_000_059);
        assert_eq!(Partition::of(slot).start_ms(week), 1_500_000_000_000);
        assert_eq!(offset(slot), 0);
        assert_eq!(Table::new(week, 0).partition_ms(), 120_000_000);
    }

    #[test]
    fn shards_are_signed() {
        assert_eq!(shard(1, 0), 16_384);
        assert_eq!(shard(2, 0), -32_768);
        assert_eq!(shard(3, 0x3fff), -1);
        assert_eq!(shard(0, 0x3fff), 16_383);
    }

    #[test]
    fn counts_split() {
        let split = |n| split_count(n).collect::<Vec<_>>();
        assert_eq!(split(0), [0]);
        assert_eq!(split(32_767), [32_767]);
        assert_eq!(split(86_400), [32_767, 32_767, 20_866]);
        assert_eq!(split(-40_000), [-32_767, -7233]);
        assert_eq!(split(1_000_000), [32_767; 8]);
        let mean = fit(1_000_000.0 * 2.5, 1_000_000) / f64::from(COUNT_TOTAL_MAX);
        assert!((mean - 2.5).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn shards_read_back(replica in 0u8..4, writer in 0u16..WRITERS) {
            let stored = shard(replica, writer);
            prop_assert_eq!((replica_of(stored), writer_of(stored)), (replica, writer));
        }

        #[test]
        fn counts_add_up(count in -COUNT_TOTAL_MAX..=COUNT_TOTAL_MAX) {
            prop_assert_eq!(split_count(count).map(i32::from).sum::<i32>(), count);
            prop_assert!(split_count(count).count() <= usize::from(IDS_PER_WRITER));
        }

        #[test]
        fn partitions_cover_a_range_once(from in 0u32..30_000_000, len in 0u32..9000) {
            let slots: Vec<u32> = partitions(from, from + len)
                .flat_map(|(p, a, b)| (a..b).map(move |o| p.first_slot() + o as u32))
                .collect();
            prop_assert_eq!(slots, (from..from + len).collect::<Vec<_>>());
        }

        #[test]
        fn rows_hold_at_most_2000_offsets(slot: u32, resolution in 1u32..604_800) {
            let stage = Stage { resolution, points: 10 };
            let start = Partition::of(slot).start_ms(stage);
            prop_assert!((0..2000).contains(&offset(slot)));
            let ms = i64::from(slot) * i64::from(resolution) * 1000;
            prop_assert_eq!(start + i64::from(offset(slot)) * i64::from(resolution) * 1000, ms);
            prop_assert_eq!(start % Table::new(stage, 0).partition_ms(), 0);
        }
    }
}
