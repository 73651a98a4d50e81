//! Maps a slot to its table, its partition (of 2000 slots) and its offset, and maps a writer to the value of
//! the column `shard`.

use plumbago_model::Stage;
use plumbago_store::WriterIdentity;
use plumbago_store::writer::{IDS_PER_WRITER, WRITER_IDS};

/// Slots in a partition; part of the format. BigGraphite intends partitions of at least six hours, but it
/// compares seconds with milliseconds, so they always have 2000 slots.
pub const PARTITION_SLOTS: u32 = 2000;

/// How much longer than the duration of its stage a row is kept, in seconds.
pub const OUT_OF_ORDER_SECONDS: u64 = 900;

/// The largest count that fits into one row, because the column is a `smallint`.
pub(crate) const COUNT_MAX: i32 = i16::MAX as i32;

/// The largest count that all rows of one writer for a slot can hold together.
pub const COUNT_TOTAL_MAX: i32 = COUNT_MAX * IDS_PER_WRITER as i32;

/// A table for points: a stage, and whether it holds raw points or windows. All metrics that have the
/// stage share the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Table {
    /// The stage whose slots the table holds.
    pub stage: Stage,
    /// Whether the table holds windows: true for every stage of a retention but the first.
    pub coarse: bool,
}

impl Table {
    /// The table of a stage that is at `stage_index` in its retention, counted from 0.
    pub fn new(stage: Stage, stage_index: u8) -> Self {
        Self { stage, coarse: stage_index > 0 }
    }

    /// The name of the table, e.g. `datapoints_10080p_60s_aggr`.
    pub fn name(&self) -> String {
        let suffix = if self.coarse { "aggr" } else { "0" };
        format!("datapoints_{}p_{}s_{suffix}", self.stage.points, self.stage.resolution)
    }

    /// BigGraphite's notation for the stage, e.g. `10080*60s_aggr`.
    pub fn stage_text(&self) -> String {
        let suffix = if self.coarse { "aggr" } else { "0" };
        format!("{}*{}s_{suffix}", self.stage.points, self.stage.resolution)
    }

    /// The time span of a partition, in milliseconds.
    pub fn partition_ms(&self) -> i64 {
        i64::from(PARTITION_SLOTS) * 1000 * i64::from(self.stage.resolution)
    }

    /// How long a row is kept, in seconds. The server's limit may be lower.
    pub fn ttl(&self) -> u64 {
        self.stage.duration() + OUT_OF_ORDER_SECONDS
    }
}

/// A partition of a table, as its number: the first slot divided by [`PARTITION_SLOTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(pub u32);

impl Partition {
    /// The partition that holds a slot.
    pub fn of(slot: u32) -> Self {
        Self(slot / PARTITION_SLOTS)
    }

    /// The value of the column `time_start_ms`: the start of the first slot, in milliseconds since the epoch.
    pub fn start_ms(self, stage: Stage) -> i64 {
        i64::from(self.first_slot()) * 1000 * i64::from(stage.resolution)
    }

    /// The first slot of the partition.
    pub fn first_slot(self) -> u32 {
        self.0 * PARTITION_SLOTS
    }
}

/// The offset of a slot in its partition.
pub fn offset(slot: u32) -> i16 {
    (slot % PARTITION_SLOTS) as i16
}

/// Splits the slots `from..until` by partition. Each item is a partition and its part of the range, as
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

/// The value of the column `shard` in the rows of a writer: the replica id in the upper 2 bits and the
/// writer id in the lower 14, as a signed number. A writer has several ids; `part` selects one, from 0.
pub fn writer_key(writer: WriterIdentity, part: u16) -> i16 {
    (u16::from(writer.replica()) << 14 | writer.id(part)).cast_signed()
}

/// The writer that a value of the column `shard` belongs to, and which of the writer's ids it has (from 0).
pub fn writer_of(key: i16) -> (WriterIdentity, u16) {
    let key = key.cast_unsigned();
    let writer_id = key % WRITER_IDS;
    let writer = WriterIdentity::new((key >> 14) as u8, writer_id);
    (writer, writer_id - writer.first_id())
}

/// Splits a count into parts that each fit into a `smallint`, filling the first parts completely. There is at
/// least one part and at most [`IDS_PER_WRITER`]; a larger count is cut off (see [`fit`]).
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

/// Scales the sum of an averaged window down if its count is larger than the rows of a writer can hold.
/// The count is cut off to [`COUNT_TOTAL_MAX`], so the sum has to shrink with it to keep the mean.
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
    fn writer_keys_are_signed() {
        let key = |replica, writer_id| writer_key(WriterIdentity::new(replica, writer_id), writer_id % 8);
        assert_eq!(key(1, 0), 16_384);
        assert_eq!(key(2, 0), -32_768);
        assert_eq!(key(3, 0x3fff), -1);
        assert_eq!(key(0, 0x3fff), 16_383);
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
        fn writer_keys_read_back(replica in 0u8..4, writer_id in 0u16..WRITER_IDS) {
            let writer = WriterIdentity::new(replica, writer_id);
            let part = writer_id % IDS_PER_WRITER;
            prop_assert_eq!(writer_of(writer_key(writer, part)), (writer, part));
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
