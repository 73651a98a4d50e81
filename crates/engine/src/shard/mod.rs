//! A shard: a part of the metrics, owned by one worker, and the handling of their points. It has no thread,
//! clock or store of its own, so that a simulation can run it.

mod accept;
pub(crate) mod chunked;
pub(crate) mod copy;
pub(crate) mod creation;
pub(crate) mod crowded;
pub(crate) mod deletion;
pub(crate) mod downsample;
pub(crate) mod flush;
pub(crate) mod future;
pub(crate) mod head;
pub(crate) mod head_state;
pub(crate) mod import;
pub(crate) mod jobs;
pub(crate) mod late;
pub(crate) mod live;
pub(crate) mod pool;
pub(crate) mod quota;
pub(crate) mod ranges;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod restore;
#[cfg(test)]
mod simulation;
pub(crate) mod state_row;
pub(crate) mod sweep;
pub(crate) mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashTable;
use plumbago_journal::{JournalError, JournalWriter, Position};
use plumbago_model::{MetricConfig, MetricId, PointBatch, PointRef, Window};
use plumbago_store::BlockLayout;

use crate::ledger::Ledger;
use crate::router::{Entry, NameHash, ShardBatch};
use crate::shard::chunked::Chunked;
use crate::shard::creation::CreateGate;
use crate::shard::downsample::MetricLayout;
use crate::shard::head::{Head, Scratch};
use crate::shard::head_state::{HeadState, LifeEvent, mark};
use crate::shard::pool::Pool;
use crate::stats::{Reject, Stats};

/// Points up to this many slots late or ahead of now go into the head. BigGraphite has the same allowance.
pub(crate) const ALLOWANCE: u32 = 20;
/// Number of points that are looked up together, so that their cache misses overlap.
pub(crate) const BATCH: usize = 32;
/// Number of low bits of a journal record's metric field that contain the metric's number. The high bits
/// contain the record's kind, which says where the point went.
pub(crate) const NUMBER_BITS: u32 = 28;
/// Journal kind of a point that is kept until its time comes.
pub(crate) const KIND_FUTURE: u32 = 15;
/// Journal kind of a future point whose time has come.
pub(crate) const KIND_RELEASED: u32 = 14;
/// Journal kind of a late point of the raw stage that waits in the journal.
pub(crate) const KIND_LATE: u32 = 13;
/// Journal kind of a future point whose time has come, and that waits in the journal because it is late by
/// then.
pub(crate) const KIND_RELEASED_LATE: u32 = 12;

/// Settings that a shard needs for points and flushes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Whether the store gets a few points of each metric at every interval, instead of whole blocks.
    pub(crate) at_intervals: bool,
    /// Whether open windows are written at every interval too.
    pub(crate) emit_open: bool,
    /// Points further ahead of now than this are rejected, in seconds.
    pub(crate) future_max: i64,
    /// A metric gets a state row when its oldest unflushed point is this many journal segments old.
    pub(crate) checkpoint_segments: u32,
    /// If a metric gets no points for this long, in seconds, all of its slots are flushed.
    pub(crate) idle_after: i64,
    /// With this many pending late points, further ones wait in the journal.
    pub(crate) late_points: usize,
}

/// Number of late points of a shard that may be in memory; further ones wait in the journal.
pub(crate) const LATE_POINTS: usize = 262_144;

/// The metrics of one worker.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) blocks: BlockLayout,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    table: HashTable<u32>,
    pub(crate) heads: Chunked<Head>,
    /// With flushes at intervals: for each head, the first slot that was never flushed.
    pub(crate) unwritten_from: Chunked<u32>,
    pub(crate) windows: Chunked<Window>,
    pub(crate) pool: Pool,
    pub(crate) layouts: Vec<Arc<MetricLayout>>,
    layout_of: HashMap<String, u16>,
    /// Heads of forgotten metrics, by the number of coarse stages for which they have windows.
    pub(crate) vacant: HashMap<usize, Vec<u32>>,
    pub(crate) scratch: Scratch,
    /// Heads that are due for a flush.
    pub(crate) due: Vec<u32>,
    /// The due heads that are being flushed, sorted by metric id.
    pub(crate) flushing: VecDeque<u32>,
    pub(crate) late: late::LateList,
    /// Metrics that are being deleted.
    pub(crate) deletions: deletion::Deletions,
    /// Points ahead of now.
    future: future::FuturePoints,
    /// Whether the flusher that reads from the store has room.
    pub(crate) may_read: bool,
    pub(crate) sweep: sweep::Sweep,
    crowded: crowded::Crowded,
    quotas: quota::ShardQuotas,
    pub(crate) ledger: Ledger,
    exported: Ledger,
    /// The last journal sequence applied.
    pub(crate) sequence: u64,
    /// The journal segment of the points that are being applied, or an earlier segment.
    pub(crate) segment: u32,
}

/// What a shard needs from its worker to apply points.
pub(crate) struct ApplyContext<'a> {
    pub(crate) writer: &'a mut JournalWriter,
    pub(crate) gate: &'a mut dyn CreateGate,
    /// Seconds since the epoch.
    pub(crate) now: i64,
}

/// Why a batch was not applied completely. The caller tries again later with the rest.
#[derive(Debug)]
pub(crate) enum ApplyStop {
    /// The journal could not be written.
    Journal(JournalError),
    /// Too many metrics are being created.
    Busy,
}

impl Shard {
    pub(crate) fn new(blocks: BlockLayout, limits: Limits, stats: Stats) -> Self {
        Self {
            blocks,
            limits,
            stats,
            table: HashTable::new(),
            heads: Chunked::default(),
            unwritten_from: Chunked::default(),
            windows: Chunked::default(),
            pool: Pool::default(),
            layouts: Vec::new(),
            layout_of: HashMap::new(),
            vacant: HashMap::new(),
            scratch: Scratch::default(),
            due: Vec::new(),
            flushing: VecDeque::new(),
            late: late::LateList::default(),
            deletions: deletion::Deletions::default(),
            future: future::FuturePoints::default(),
            may_read: true,
            sweep: sweep::Sweep::default(),
            crowded: crowded::Crowded::default(),
            quotas: quota::ShardQuotas::default(),
            ledger: Ledger::default(),
            exported: Ledger::default(),
            sequence: 0,
            segment: 0,
        }
    }

    /// Applies a batch, starting with entry `from`.
    ///
    /// # Errors
    ///
    /// The number of entries applied so far, and why the batch was stopped.
    pub(crate) fn apply(
        &mut self,
        batch: &ShardBatch,
        from: usize,
        context: &mut ApplyContext<'_>,
    ) -> Result<(), (usize, ApplyStop)> {
        let mut found = [u32::MAX; BATCH];
        let mut done = from;
        for entries in batch.entries[from..].chunks(BATCH) {
            if context.writer.is_full() {
                context.writer.write_out().map_err(|e| (done, ApplyStop::Journal(e)))?;
            }
            if context.gate.is_full() {
                return Err((done, ApplyStop::Busy));
            }
            self.segment = context.writer.segment();
            self.check_late_room(|| Position::of_segment(context.writer.segment()));
            self.look_up(entries, &mut found);
            for (at, (hash, place)) in found.iter().zip(entries) {
                let point = &batch.batch.points()[*place as usize];
                self.apply_one(*at, hash, &batch.batch, point, context);
            }
            self.ledger.received += entries.len() as u64;
            done += entries.len();
        }
        Ok(())
    }

    /// Looks up the heads of all entries. One pass visits the table, one the heads and one the chains that
    /// will grow, so that the cache misses of a pass overlap.
    fn look_up(&self, entries: &[Entry], found: &mut [u32; BATCH]) {
        let found = &mut found[..entries.len()];
        for (at, (hash, _)) in found.iter_mut().zip(entries) {
            *at = self.table.iter_hash(table_hash(hash)).next().copied().unwrap_or(u32::MAX);
        }
        for (at, (hash, _)) in found.iter_mut().zip(entries) {
            if *at != u32::MAX && self.heads[*at].hash != *hash {
                *at = self.find(hash).unwrap_or(u32::MAX);
            }
        }
        let known = found.iter().filter(|at| **at != u32::MAX);
        self.pool.warm_ends(known.filter_map(|at| self.heads[*at].about_to_seal()));
    }

    /// Returns the head of the metric with this name hash.
    #[inline]
    pub(crate) fn find(&self, hash: &NameHash) -> Option<u32> {
        let heads = &self.heads;
        self.table.find(table_hash(hash), |at| heads[*at].hash == *hash).copied()
    }

    /// The number of metrics.
    pub(crate) fn metrics(&self) -> usize {
        self.table.len()
    }

    /// The number of heads; some may be vacant.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Memory of heads, windows, cells and the table, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let heads = self.heads.bytes() + self.windows.bytes() + self.pool.bytes();
        heads + self.table.allocation_size() + self.late.waiting.bytes() + self.quotas.bytes()
    }

    /// Adds a metric that has no head yet.
    pub(crate) fn insert(
        &mut self,
        hash: NameHash,
        id: MetricId,
        number: u32,
        config: &Arc<MetricConfig>,
        life: LifeEvent,
    ) -> u32 {
        let layout = self.layout(config);
        let coarse = self.layouts[usize::from(layout)].coarse();
        let vacant =
            if self.vacant.is_empty() { None } else { self.vacant.get_mut(&coarse).and_then(Vec::pop) };
        let at = vacant.unwrap_or_else(|| self.push_vacant(coarse));
        let mut state = HeadState::default();
        state.on_life(life);
        if life == LifeEvent::InsertKnown {
            state.set(mark::MERGE);
        }
        self.heads[at] = Head::new(hash, id, number, self.heads[at].windows, layout, state);
        let heads = &self.heads;
        self.table.insert_unique(table_hash(&hash), at, |at| table_hash(&heads[*at].hash));
        at
    }

    /// Adds a vacant head, with windows for this many coarse stages.
    fn push_vacant(&mut self, coarse: usize) -> u32 {
        let windows = self.windows.len() as u32;
        for _ in 0..coarse {
            self.windows.push(Window::default());
        }
        if self.limits.at_intervals {
            self.unwritten_from.push(0);
        }
        self.heads.push(Head::new(
            NameHash::default(),
            MetricId([0; 16]),
            0,
            windows,
            0,
            HeadState::default(),
        ))
    }

    /// The ledger of the shard's points.
    pub(crate) fn ledger(&self) -> Ledger {
        Ledger { waiting: self.late.waiting.points(), ..self.ledger }
    }

    /// Adds the changes of the ledger since the last call to the exported counters.
    pub(crate) fn export_counters(&mut self) {
        self.ledger.export(&mut self.exported, &self.stats);
    }

    /// The open windows of a metric.
    pub(crate) fn open(&self, head: &Head) -> Vec<Window> {
        let n = self.layouts[usize::from(head.config)].coarse() as u32;
        (0..n).map(|k| self.windows[head.windows + k]).collect()
    }

    pub(super) fn layout(&mut self, config: &Arc<MetricConfig>) -> u16 {
        // Metrics that are created one after the other usually have the same settings.
        if let Some(at) = self.layouts.iter().position(|p| Arc::ptr_eq(&p.config, config)) {
            return at as u16;
        }
        let text = config.to_text();
        if let Some(at) = self.layout_of.get(&text) {
            return *at;
        }
        let at = self.layouts.len() as u16;
        self.layouts.push(Arc::new(MetricLayout::new(Arc::clone(config))));
        self.layout_of.insert(text, at);
        at
    }

    #[inline]
    fn apply_one(
        &mut self,
        at: u32,
        hash: &NameHash,
        batch: &PointBatch,
        point: &PointRef,
        context: &mut ApplyContext<'_>,
    ) {
        let mut at = at;
        if at == u32::MAX {
            // An earlier point of this batch may have created the metric.
            let known = self
                .find(hash)
                .or_else(|| self.create_within_quota(hash, batch.name(point), point.timestamp, context));
            let Some(known) = known else { return };
            at = known;
        }
        if self.heads[at].is(mark::QUOTA) && !self.admit_point(at, batch.name(point), context.now) {
            return self.ledger.reject(Reject::Quota);
        }
        if self.heads[at].number == 0 && !self.assign_number(at, batch.name(point), context) {
            return self.ledger.reject(Reject::MemoryLimited);
        }
        self.accept(at, point.timestamp, point.value, context);
        if self.heads[at].is(mark::WATCHED) {
            self.watch(at, hash, batch.name(point), point.timestamp);
        }
    }

    #[cold]
    fn watch(&mut self, at: u32, hash: &NameHash, name: &str, timestamp: u32) {
        let raw = self.layouts[usize::from(self.heads[at].config)].raw;
        if !self.crowded.note(at, *hash, name, raw, timestamp) {
            self.heads[at].clear(mark::WATCHED);
        }
    }

    /// The metrics that get several points for each slot of their raw stage. `now` is in seconds since the
    /// epoch.
    pub(crate) fn crowded(&mut self, now: i64) -> crowded::CrowdedMetrics {
        let (found, released) = self.crowded.judge(now);
        for (at, hash) in released {
            if self.heads[at].hash == hash {
                self.heads[at].clear(mark::WATCHED);
            }
        }
        found
    }

    /// Gives a number to a metric that was loaded from the metadata store without one, because another
    /// program created it or its state row was lost. Returns `false` if no number is left.
    #[cold]
    fn assign_number(&mut self, at: u32, name: &str, context: &mut ApplyContext<'_>) -> bool {
        let Some(number) = context.gate.next_number() else { return false };
        self.sequence = context.writer.creation(number, name);
        let head = &mut self.heads[at];
        head.number = number;
        if head.segment == 0 {
            head.segment = context.writer.segment();
        }
        true
    }
}

fn table_hash(hash: &NameHash) -> u64 {
    u64::from(hash[0]) | u64::from(hash[1]) << 32
}
