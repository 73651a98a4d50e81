//! Points: slots of a stage, written in runs and read as columns.

use std::fmt::Debug;

use async_trait::async_trait;
use plumbago_model::{Aggregation, MetricId, Stage, Window};

use crate::StoreError;

/// Consecutive slots of one metric in one stage, inside a [`WriteBatch`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// The metric.
    pub id: MetricId,
    /// The stage; `stage_index` is its place in the metric's retention, 0 for raw.
    pub stage: Stage,
    /// 0 for the raw stage.
    pub stage_index: u8,
    /// How windows of the metric merge; matters for coarse stages only.
    pub aggregation: Aggregation,
    /// The first slot (timestamp ÷ resolution).
    pub first_slot: u32,
    /// Number of slots.
    pub len: u32,
    /// Where its values start in the batch's columns.
    pub at: u32,
    /// The writer vouches that the run covers its whole block ([`BlockLayout`]) and holds everything
    /// known of it: the store may replace the block without reading it. Otherwise known slots are
    /// laid over what is stored.
    pub whole: bool,
}

/// Many runs and their values in columns; NaN is an unknown slot.
#[derive(Debug, Default, Clone)]
pub struct WriteBatch {
    /// The runs.
    pub runs: Vec<Run>,
    /// Values of all runs; for coarse stages the window's value (a sum for averages).
    pub values: Vec<f64>,
    /// Counts of all runs, as long as `values`; 1 (or 0 for unknown) in raw stages.
    pub counts: Vec<u32>,
}

impl WriteBatch {
    /// The values of a run.
    pub fn values(&self, run: &Run) -> &[f64] {
        &self.values[run.at as usize..(run.at + run.len) as usize]
    }

    /// The counts of a run.
    pub fn counts(&self, run: &Run) -> &[u32] {
        &self.counts[run.at as usize..(run.at + run.len) as usize]
    }

    /// Adds a run whose columns are the given slices; `run.at` and `run.len` are filled in.
    pub fn push(&mut self, mut run: Run, values: &[f64], counts: Option<&[u32]>) {
        run.at = self.values.len() as u32;
        run.len = values.len() as u32;
        self.values.extend_from_slice(values);
        match counts {
            Some(counts) => self.counts.extend_from_slice(counts),
            None => self.counts.extend(values.iter().map(|v| u32::from(!v.is_nan()))),
        }
        self.runs.push(run);
    }

    /// Known slots in it.
    pub fn known(&self) -> u64 {
        self.values.iter().filter(|v| !v.is_nan()).count() as u64
    }

    /// Makes room for so many more runs and slots.
    pub fn reserve(&mut self, runs: usize, slots: usize) {
        self.runs.reserve(runs);
        self.values.reserve(slots);
        self.counts.reserve(slots);
    }

    /// Forgets the runs and keeps the room.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.values.clear();
        self.counts.clear();
    }
}

/// Slots of one metric's stage, `from..until`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlotRange {
    /// The metric.
    pub id: MetricId,
    /// The stage.
    pub stage: Stage,
    /// 0 for the raw stage.
    pub stage_index: u8,
    /// How windows merge.
    pub aggregation: Aggregation,
    /// First slot wanted.
    pub from: u32,
    /// First slot no longer wanted.
    pub until: u32,
}

impl SlotRange {
    /// A column for it in which nothing is known.
    pub fn unknown(&self) -> Column {
        Column::unknown(self.until.saturating_sub(self.from) as usize, self.stage_index > 0)
    }
}

/// A read of many metrics at once.
#[derive(Debug, Default, Clone)]
pub struct ReadRequest {
    /// What is wanted; the answer has one column for each, in this order.
    pub ranges: Vec<SlotRange>,
    /// Also what the store has confirmed lately and may have lost since, at whatever cost: for those who
    /// compute rows from the answer.
    pub forgotten_too: bool,
    /// What other writers have told that they have and the store has not yet.
    pub peers: Vec<PeerRows>,
}

/// What another writer has of the ranges of a [`ReadRequest`] and has not written yet. It replaces what
/// this writer has written of the same slots.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PeerRows {
    /// Which copy of the traffic it takes.
    pub replica: u8,
    /// Its number among the writers of that copy.
    pub writer: u16,
    /// Place of the range in the request, slot, and what is in it, in this order.
    pub rows: Vec<(u32, u32, Window)>,
}

/// The answer for one [`SlotRange`]: `until - from` values, NaN for unknown.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Column {
    /// Values; windows of coarse stages unfinished (sums for averages).
    pub values: Vec<f64>,
    /// Counts, for coarse stages only; empty for raw ones.
    pub counts: Vec<u32>,
    /// What other writers have in the same slots; `None` in raw stages and where one writer is all
    /// there is. The values above are this writer's own until [`Column::settle`].
    pub others: Option<Box<Others>>,
}

/// Windows of a coarse stage that other writers have written; each vector as long as the column's.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Others {
    /// Of writers that saw other points of the same traffic: they merge with ours.
    pub partners: Vec<Window>,
    /// Of the fullest copy of the traffic, which wins where it has seen more than we and our partners.
    pub rivals: Vec<Window>,
}

impl Column {
    /// A column of unknown slots.
    pub fn unknown(len: usize, coarse: bool) -> Self {
        let counts = if coarse { vec![0; len] } else { Vec::new() };
        Self { values: vec![f64::NAN; len], counts, others: None }
    }

    /// Puts the windows of all writers together.
    pub fn settle(&mut self, method: Aggregation) {
        let Some(others) = self.others.take() else { return };
        for (at, (partner, rival)) in others.partners.iter().zip(&others.rivals).enumerate() {
            let (Some(value), Some(count)) = (self.values.get_mut(at), self.counts.get_mut(at)) else {
                break;
            };
            let mut whole = if *count == 0 {
                *partner
            } else if partner.count == 0 {
                Window { value: *value, count: *count }
            } else if method.needs_all_slots() {
                // Computed from all slots that there were: the fullest is the newest.
                let own = Window { value: *value, count: *count };
                if partner.count > own.count { *partner } else { own }
            } else {
                // A row that corrects others takes away from their count.
                let together = i64::from(partner.count) + i64::from(*count as i32);
                let merged = method.merge(*partner, Window { value: *value, count: 1 });
                Window { value: merged.value, count: together.clamp(0, i64::from(u32::MAX)) as u32 }
            };
            if rival.count > whole.count {
                whole = *rival;
            }
            if whole.count > 0 {
                (*value, *count) = (whole.value, whole.count);
            }
        }
    }
}

/// How a store likes its writes cut: the engine flushes a metric when a block is complete, so that
/// it is written once and whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLayout {
    /// Slots in a raw block; blocks of a metric start where `(slot + phase) % slots == 0`.
    pub raw_slots: u32,
}

impl BlockLayout {
    /// The shift of a metric's raw block grid, so that not all metrics flush at once. It follows the
    /// id's order: while a block period passes, metrics become due in id order, and an LSM store
    /// writes tables that do not overlap.
    #[inline]
    pub fn phase(&self, id: &MetricId) -> u32 {
        let prefix = u32::from_be_bytes([id.0[0], id.0[1], id.0[2], id.0[3]]);
        // The grid's start moves backwards as the phase grows, hence the complement.
        ((u64::from(!prefix) * u64::from(self.raw_slots)) >> 32) as u32
    }

    /// The first slot of the raw block that holds `slot`; may lie before the epoch, hence signed.
    #[inline]
    pub fn block_start(&self, id: &MetricId, slot: u32) -> i64 {
        let phase = i64::from(self.phase(id));
        let slots = i64::from(self.raw_slots);
        (i64::from(slot) + phase) / slots * slots - phase
    }

    /// Slots in a block of a coarse stage: as many windows as close while one raw block fills.
    /// Their grid has no phase.
    pub fn coarse_slots(&self, raw: Stage, coarse: Stage) -> u32 {
        (self.raw_slots * raw.resolution / coarse.resolution).max(1)
    }
}

/// What a store can take at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appetite {
    /// Calls in flight.
    pub concurrency: usize,
    /// Slots a call should carry.
    pub slots_per_call: usize,
}

/// Keeps points.
#[async_trait]
pub trait PointStore: Send + Sync + Debug {
    /// Writes whole runs; repeating it changes nothing.
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError>;

    /// Reads columns. A damaged block is counted and reads as unknown; only a failure of the store
    /// as a whole is an error.
    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError>;

    /// Reads what this process alone has: accepted, and not yet where other readers of the store see it.
    async fn read_unsent(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        Ok(request.ranges.iter().map(SlotRange::unknown).collect())
    }

    /// Takes what other writers have of them out of the windows of a batch, which were computed from
    /// the points of all writers: so that all rows together give the whole.
    async fn leave_to_others(&self, _batch: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    /// Deletes all points of the metrics.
    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError>;

    /// How much it takes at once.
    fn appetite(&self) -> Appetite;
}
