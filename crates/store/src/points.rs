//! Points: the slots of a stage, written in runs and read as columns.

use std::ops::Range;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, MetricId, Stage};

use crate::merge::{self, OtherReplica, WindowRow};
use crate::{RowCount, Store, StoreError};

/// Consecutive slots of one metric in one stage, inside a [`WriteBatch`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// The id of the metric.
    pub id: MetricId,
    /// The stage that the slots belong to.
    pub stage: Stage,
    /// Index of the stage in the metric's retention; 0 is raw.
    pub stage_index: u8,
    /// The metric's aggregation method, by which windows of several writers are merged. Not used in the raw
    /// stage.
    pub aggregation: Aggregation,
    /// Number of the first slot (timestamp ÷ resolution).
    pub first_slot: u32,
    /// Number of slots.
    pub len: u32,
    /// Index of the run's first slot in `WriteBatch::values` and `WriteBatch::counts`.
    pub at: u32,
    /// Whether the run covers a whole block ([`BlockLayout`]) and contains every known slot of that block. If
    /// so, the store may replace the block without reading it. Otherwise the run's known slots replace stored
    /// ones, and all other slots stay.
    pub whole: bool,
}

/// Runs of slots, with the values and counts of all runs in two vectors. NaN is an unknown slot.
#[derive(Debug, Default, Clone)]
pub struct WriteBatch {
    /// The runs. Later runs replace the slots of earlier ones.
    pub runs: Vec<Run>,
    /// Values of all runs. In coarse stages they are aggregated values of windows, which are sums for
    /// averages.
    pub values: Vec<f64>,
    /// Counts of all runs, as long as `values`. In raw stages a count is 1, or 0 for an unknown slot.
    pub counts: Vec<RowCount>,
}

impl WriteBatch {
    /// The values of a run.
    pub fn values(&self, run: &Run) -> &[f64] {
        &self.values[run.at as usize..(run.at + run.len) as usize]
    }

    /// The counts of a run.
    pub fn counts(&self, run: &Run) -> &[RowCount] {
        &self.counts[run.at as usize..(run.at + run.len) as usize]
    }

    /// Adds a run with these values and sets `run.at` and `run.len`. Without `counts` each known slot counts
    /// as 1, as in the raw stage.
    pub fn push(&mut self, mut run: Run, values: &[f64], counts: Option<&[RowCount]>) {
        run.at = self.values.len() as u32;
        run.len = values.len() as u32;
        self.values.extend_from_slice(values);
        match counts {
            Some(counts) => self.counts.extend_from_slice(counts),
            None => self.counts.extend(values.iter().map(|v| RowCount::new(i32::from(!v.is_nan())))),
        }
        self.runs.push(run);
    }

    /// The number of known slots.
    pub fn known(&self) -> u64 {
        self.values.iter().filter(|v| !v.is_nan()).count() as u64
    }

    /// Reserves memory for this many more runs and slots.
    pub fn reserve(&mut self, runs: usize, slots: usize) {
        self.runs.reserve(runs);
        self.values.reserve(slots);
        self.counts.reserve(slots);
    }

    /// Removes all runs and keeps the memory.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.values.clear();
        self.counts.clear();
    }
}

/// A range of slots in one stage of a metric: `from..until`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlotRange {
    /// The id of the metric.
    pub id: MetricId,
    /// The stage that the slots belong to.
    pub stage: Stage,
    /// Index of the stage in the metric's retention; 0 is raw.
    pub stage_index: u8,
    /// The metric's aggregation method, by which windows of several writers are merged.
    pub aggregation: Aggregation,
    /// Number of the first slot, inclusive.
    pub from: u32,
    /// Number of the last slot, exclusive.
    pub until: u32,
}

impl SlotRange {
    /// A column of this range's length in which all slots are unknown.
    pub fn unknown(&self) -> Column {
        Column::unknown(self.until.saturating_sub(self.from) as usize, self.stage_index > 0)
    }

    /// The slots of the range.
    pub fn slots(&self) -> Range<u32> {
        self.from..self.until
    }
}

/// Each range as one part: the answer of a store that cannot tell which parts have rows.
pub(crate) fn whole(ranges: &[SlotRange]) -> Vec<Vec<Range<u32>>> {
    ranges.iter().map(|range| vec![range.slots()]).collect()
}

/// Joins parts that overlap or touch, and drops empty ones. The parts may be in any order; the result is in order.
pub fn joined(mut parts: Vec<Range<u32>>) -> Vec<Range<u32>> {
    parts.sort_unstable_by_key(|part| part.start);
    let mut all: Vec<Range<u32>> = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        match all.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => all.push(part),
        }
    }
    all
}

/// The pending rows of one peer, matched to the ranges of a [`ReadRequest`]. They
/// replace what that writer has in the store for the same slots.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PeerRows {
    /// The replica (copy of the traffic) that the peer writes.
    pub replica: u8,
    /// The peer's writer id within that replica.
    pub writer: u16,
    /// Index of the range in the request, slot number and content, sorted by index and slot.
    pub rows: Vec<(u32, u32, WindowRow)>,
}

/// A read of many metrics at once.
#[derive(Debug, Default, Clone)]
pub struct ReadRequest {
    /// The ranges to read. The answer has one column for each, in this order.
    pub ranges: Vec<SlotRange>,
    /// Whether to also read rows that a remote store has acknowledged and the local disk still retains, in
    /// case the remote store lost them. A remote store then reads from as many replicas as must confirm a
    /// write, so that a lagging replica does not decide the answer. This is slower; set it if rows are
    /// computed from the answer.
    pub include_retained: bool,
    /// Pending rows of peers, which replace what those writers have in the store.
    pub peers: Vec<PeerRows>,
}

impl ReadRequest {
    /// The answer of an empty store: one column of unknown slots for each range.
    pub fn unknown(&self) -> Vec<Column> {
        self.ranges.iter().map(SlotRange::unknown).collect()
    }
}

/// The answer for one [`SlotRange`]: `until - from` values, NaN for unknown.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Column {
    /// The values. In coarse stages they are aggregated values of windows, which are sums for averages.
    pub values: Vec<f64>,
    /// The counts in coarse stages; empty in the raw stage.
    pub counts: Vec<RowCount>,
    /// Windows of other writers in the same slots; `None` in the raw stage and if there is only one writer.
    /// While this is set, `values` and `counts` are those of this writer alone ([`Column::merge_writers`]).
    pub others: Option<Box<OtherWriters>>,
}

/// Windows of a coarse stage that other writers have stored. Each vector is as long as the column.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct OtherWriters {
    /// The merged rows of the other writers in this writer's replica, [`WindowRow::NONE`] where there is none.
    /// They are merged with its own.
    pub same_replica: Vec<WindowRow>,
    /// The windows of the other replica with the highest count. Each wins if it counts more slots than this
    /// replica.
    pub other_replicas: Vec<OtherReplica>,
}

impl Column {
    /// A column of `len` unknown slots. Only the column of a coarse stage has counts.
    pub fn unknown(len: usize, coarse: bool) -> Self {
        let counts = if coarse { vec![RowCount::ZERO; len] } else { Vec::new() };
        Self { values: vec![f64::NAN; len], counts, others: None }
    }

    /// Merges the windows of all writers into `values` and `counts`, and clears `others`.
    pub fn merge_writers(&mut self, method: Aggregation) {
        let Some(others) = self.others.take() else { return };
        let own = self.values.iter_mut().zip(&mut self.counts);
        for ((value, count), (same, other)) in own.zip(others.same_replica.iter().zip(&others.other_replicas))
        {
            let row = WindowRow { value: *value, count: *count };
            let whole = merge::merge_with_others(method, row, *same, *other);
            (*value, *count) = whole.map_or((f64::NAN, RowCount::ZERO), |w| (w.value, w.count.into()));
        }
    }
}

/// The length of a store's blocks. The engine flushes a metric when a block is complete, so that each block is written
/// only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLayout {
    /// Number of slots in a raw block. A metric's blocks start where `(slot + phase) % raw_slots == 0`.
    pub raw_slots: u32,
}

impl BlockLayout {
    /// How many slots earlier a metric's raw blocks start, so that not all metrics are flushed at once.
    /// During a block span, metrics become due in the order of their ids, so that an LSM store writes tables
    /// that do not overlap.
    #[inline]
    pub fn phase(&self, id: &MetricId) -> u32 {
        let prefix = u32::from_be_bytes([id.0[0], id.0[1], id.0[2], id.0[3]]);
        // A metric with a larger phase is due earlier. The complement of the id gives lower ids larger
        // phases, so that they are due first.
        ((u64::from(!prefix) * u64::from(self.raw_slots)) >> 32) as u32
    }

    /// The first slot of the raw block that contains `slot`. Negative if it lies before the epoch.
    #[inline]
    pub fn block_start(&self, id: &MetricId, slot: u32) -> i64 {
        let phase = i64::from(self.phase(id));
        let slots = i64::from(self.raw_slots);
        (i64::from(slot) + phase) / slots * slots - phase
    }

    /// Number of slots in a block of a coarse stage: the number of windows that close while one raw block
    /// fills. Coarse blocks have no phase.
    pub fn coarse_slots(&self, raw: Stage, coarse: Stage) -> u32 {
        (self.raw_slots * raw.resolution / coarse.resolution).max(1)
    }
}

/// How many writes a store accepts at a time, and how large they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteLimits {
    /// The largest number of write calls in flight.
    pub concurrency: usize,
    /// Number of slots that one write call should contain.
    pub slots_per_call: usize,
}

/// Stores and reads the slots of metrics.
#[boxed_futures]
pub trait PointStore: Store {
    /// Writes runs. Writing the same batch again changes nothing.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; a part of the batch may already be written.
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError>;

    /// Reads one column for each range, in the order of the request. A damaged block is counted and reads
    /// as unknown slots.
    ///
    /// # Errors
    /// If the store as a whole cannot be read.
    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError>;

    /// Returns the parts of each range that may have rows, in order and without overlaps. Slots outside them are
    /// unknown, so that a long range with few points can be read without its empty parts. Set `is_decisive` if rows are
    /// computed from what is read: a remote store then asks as many replicas as for
    /// [`ReadRequest::include_retained`]. The default implementation returns the whole ranges.
    ///
    /// # Errors
    /// If the store as a whole cannot be read.
    async fn occupied(
        &self,
        ranges: &[SlotRange],
        _is_decisive: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        Ok(whole(ranges))
    }

    /// Returns the parts of each range that may have pending rows, in any order; they may overlap. Outside them
    /// [`PointStore::read_pending`] finds nothing. The default implementation returns the whole ranges if
    /// [`Capabilities::pending_rows`](crate::Capabilities::pending_rows) is set, and otherwise no part.
    ///
    /// # Errors
    /// If the pending rows cannot be read.
    async fn occupied_pending(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        let has_pending = self.capabilities().pending_rows;
        Ok(if has_pending { whole(ranges) } else { vec![Vec::new(); ranges.len()] })
    }

    /// Reads only the pending rows: those that this process has accepted and that other readers of the
    /// store do not see yet. All slots are unknown unless
    /// [`Capabilities::pending_rows`](crate::Capabilities::pending_rows) is set.
    ///
    /// # Errors
    /// If the pending rows cannot be read.
    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError>;

    /// Reduces the whole windows of a batch to the part of this writer: subtracts the windows that other
    /// writers of the same replica have stored. Call it for windows that were computed from the points of all
    /// writers, so that the rows of all writers add up to the whole. Does nothing unless
    /// [`Capabilities::several_writers`](crate::Capabilities::several_writers) is set.
    ///
    /// # Errors
    /// If the rows of the other writers cannot be read; in that case the batch is unchanged.
    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError>;

    /// Deletes all points in these stages of the metrics.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some stages may already be deleted.
    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError>;

    /// Deletes all slots in these ranges, including those of other writers. Slots written afterwards stay.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some slots may already be deleted.
    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError>;

    /// How many writes the store accepts at a time, and how large they should be.
    fn write_limits(&self) -> WriteLimits;
}
