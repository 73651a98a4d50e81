//! A shard: the metrics one owner thread has, and what it does with a point. No threads, no clock
//! and no store in here, so that a simulation can run it.

pub(crate) mod flush;
pub(crate) mod late;
pub(crate) mod live;
pub(crate) mod read;
pub(crate) mod restore;
#[cfg(test)]
mod simulation;
pub(crate) mod sweep;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashTable;
use plumbago_journal::{JournalError, JournalWriter};
use plumbago_model::{MetricConfig, MetricId, PointBatch, PointRef, Window};
use plumbago_store::BlockLayout;

use crate::chunked::Chunked;
use crate::create::{CreateGate, NewMetric};
use crate::downsample::Plan;
use crate::head::{Applied, Head, Scratch, flag};
use crate::ledger::Ledger;
use crate::pool::Pool;
use crate::router::{NameHash, Share};
use crate::stats::{Reject, Stats};

/// Late points and points ahead of now up to this many slots are taken by the head itself, as
/// BigGraphite allows.
pub(crate) const ALLOWANCE: u32 = 20;
/// Points looked up together, so that their cache misses overlap (`reference/embedded.md` §1).
pub(crate) const BATCH: usize = 32;
/// Points that may wait for their time, in one shard.
const WAITING_MAX: usize = 65_536;
/// The metric's number fills the low bits of a journal record; the rest says where the point went.
pub(crate) const NUMBER_BITS: u32 = 28;
/// Journal kind of a point that waits for its time.
pub(crate) const KIND_WAITING: u32 = 15;
/// Journal kind of a point that has waited long enough.
pub(crate) const KIND_RELEASED: u32 = 14;

/// A point that is ahead of now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) at: u32,
    pub(crate) timestamp: u32,
    pub(crate) value: f64,
    /// Of its journal record.
    pub(crate) sequence: u64,
}

/// Settings that the shard needs at every point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The store takes a few points of each metric at every interval, and not whole blocks.
    pub(crate) at_intervals: bool,
    /// Windows that are still open are written as well, at every interval.
    pub(crate) emit_open: bool,
    pub(crate) future_max: i64,
    pub(crate) checkpoint_segments: u32,
    pub(crate) idle_after: i64,
}

/// The metrics of one owner.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) layout: BlockLayout,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    table: HashTable<u32>,
    pub(crate) heads: Chunked<Head>,
    /// With flushes at intervals: for each head the first slot that was never handed to the store.
    pub(crate) unwritten_from: Chunked<u32>,
    pub(crate) windows: Chunked<Window>,
    pub(crate) pool: Pool,
    pub(crate) plans: Vec<Arc<Plan>>,
    plan_of: HashMap<String, u16>,
    /// Heads of metrics that were forgotten, by how many coarse stages they have windows for.
    pub(crate) vacant: HashMap<usize, Vec<u32>>,
    pub(crate) scratch: Scratch,
    /// Metrics that may have something to flush.
    pub(crate) due: Vec<u32>,
    /// The part of them that is being flushed, sorted by id.
    pub(crate) flushing: VecDeque<u32>,
    pub(crate) late: late::LateList,
    pub(crate) waiting: Vec<Waiting>,
    /// When the first of them may go.
    next_release: i64,
    /// Whether the store can be asked for slots that windows need.
    pub(crate) may_read: bool,
    pub(crate) sweep: sweep::Sweep,
    pub(crate) ledger: Ledger,
    shown: Ledger,
    /// The last journal sequence applied.
    pub(crate) sequence: u64,
    /// The journal segment of the points that are being applied, or an earlier one.
    pub(crate) segment: u32,
}

/// The parts of the world a shard needs while it applies points.
pub(crate) struct World<'a> {
    pub(crate) writer: &'a mut JournalWriter,
    pub(crate) gate: &'a mut dyn CreateGate,
    /// Seconds since the epoch.
    pub(crate) now: i64,
}

/// What stopped a share half way; call again with the rest.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The journal did not take its frame.
    Journal(JournalError),
    /// Too many metrics wait for their creation, or too many late points for the store.
    Busy,
}

impl Shard {
    pub(crate) fn new(layout: BlockLayout, limits: Limits, stats: Stats) -> Self {
        Self {
            layout,
            limits,
            stats,
            table: HashTable::new(),
            heads: Chunked::default(),
            unwritten_from: Chunked::default(),
            windows: Chunked::default(),
            pool: Pool::default(),
            plans: Vec::new(),
            plan_of: HashMap::new(),
            vacant: HashMap::new(),
            scratch: Scratch::default(),
            due: Vec::new(),
            flushing: VecDeque::new(),
            late: late::LateList::default(),
            waiting: Vec::new(),
            next_release: i64::MAX,
            may_read: true,
            sweep: sweep::Sweep::default(),
            ledger: Ledger::default(),
            shown: Ledger::default(),
            sequence: 0,
            segment: 0,
        }
    }

    /// Applies a share from entry `from` on. Gives how far it came when something stopped it.
    pub(crate) fn apply(
        &mut self,
        share: &Share,
        from: usize,
        world: &mut World<'_>,
    ) -> Result<(), (usize, Halt)> {
        let mut found = [u32::MAX; BATCH];
        let mut done = from;
        for entries in share.entries[from..].chunks(BATCH) {
            if world.writer.is_full() {
                world.writer.hand_over().map_err(|e| (done, Halt::Journal(e)))?;
            }
            if self.late.is_full() || world.gate.is_full() {
                return Err((done, Halt::Busy));
            }
            self.segment = world.writer.segment();
            self.look_up(entries, &mut found);
            for (at, (hash, place)) in found.iter().zip(entries) {
                let point = &share.batch.points()[*place as usize];
                self.apply_one(*at, hash, &share.batch, point, world);
            }
            self.ledger.received += entries.len() as u64;
            done += entries.len();
        }
        Ok(())
    }

    /// Finds metrics in passes over all entries, so that the cache misses of a pass overlap: table,
    /// heads, ends of the chains that will grow.
    fn look_up(&self, entries: &[(NameHash, u32)], found: &mut [u32; BATCH]) {
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

    /// The metric with this name hash.
    #[inline]
    pub(crate) fn find(&self, hash: &NameHash) -> Option<u32> {
        let heads = &self.heads;
        self.table.find(table_hash(hash), |at| heads[*at].hash == *hash).copied()
    }

    /// Number of metrics.
    pub(crate) fn metrics(&self) -> usize {
        self.table.len()
    }

    /// Number of heads; some may be vacant.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.heads.bytes() + self.windows.bytes() + self.pool.bytes() + self.table.allocation_size()
    }

    /// Adds a metric that is not known yet.
    pub(crate) fn insert(
        &mut self,
        hash: NameHash,
        id: MetricId,
        number: u32,
        config: &Arc<MetricConfig>,
        flags: u16,
    ) -> u32 {
        let plan = self.plan(config);
        let coarse = self.plans[usize::from(plan)].coarse();
        let at = self.vacant.get_mut(&coarse).and_then(Vec::pop).unwrap_or_else(|| self.push_vacant(coarse));
        self.heads[at] = Head::new(hash, id, number, self.heads[at].windows, plan, flags);
        let heads = &self.heads;
        self.table.insert_unique(table_hash(&hash), at, |at| table_hash(&heads[*at].hash));
        at
    }

    /// Adds a head that no metric has yet.
    fn push_vacant(&mut self, coarse: usize) -> u32 {
        let windows = self.windows.len() as u32;
        for _ in 0..coarse {
            self.windows.push(Window::default());
        }
        if self.limits.at_intervals {
            self.unwritten_from.push(0);
        }
        self.heads.push(Head::new(NameHash::default(), MetricId([0; 16]), 0, windows, 0, 0))
    }

    /// Adds what happened since the last call to the exported counters.
    pub(crate) fn show(&mut self) {
        self.ledger.show(&mut self.shown, &self.stats);
    }

    /// The open windows of a metric.
    pub(crate) fn open(&self, head: &Head) -> Vec<Window> {
        let n = self.plans[usize::from(head.config)].coarse() as u32;
        (0..n).map(|k| self.windows[head.windows + k]).collect()
    }

    fn plan(&mut self, config: &Arc<MetricConfig>) -> u16 {
        // A run of metrics usually shares one configuration.
        if let Some(at) = self.plans.iter().position(|p| Arc::ptr_eq(&p.config, config)) {
            return at as u16;
        }
        let text = config.to_text();
        if let Some(at) = self.plan_of.get(&text) {
            return *at;
        }
        let at = self.plans.len() as u16;
        self.plans.push(Arc::new(Plan::new(Arc::clone(config))));
        self.plan_of.insert(text, at);
        at
    }

    #[inline]
    fn apply_one(
        &mut self,
        at: u32,
        hash: &NameHash,
        batch: &PointBatch,
        point: &PointRef,
        world: &mut World<'_>,
    ) {
        let mut at = at;
        if at == u32::MAX {
            // The name may have come earlier in this very batch.
            let known = self.find(hash).or_else(|| self.create(hash, batch.name(point), world));
            let Some(known) = known else { return };
            at = known;
        }
        if self.heads[at].number == 0 && !self.assign_number(at, batch.name(point), world) {
            return self.ledger.reject(Reject::MemoryLimited);
        }
        self.accept(at, point.timestamp, point.value, world);
    }

    /// A metric that only the metadata knew (another program's, or its state row was lost). False when
    /// there is no number left.
    #[cold]
    fn assign_number(&mut self, at: u32, name: &str, world: &mut World<'_>) -> bool {
        let Some(number) = world.gate.next_number() else { return false };
        self.sequence = world.writer.creation(number, name);
        let head = &mut self.heads[at];
        head.number = number;
        if head.segment == 0 {
            head.segment = world.writer.segment();
        }
        true
    }

    /// Judges a point by the clock and puts it where it belongs.
    #[inline]
    fn accept(&mut self, at: u32, timestamp: u32, value: f64, world: &mut World<'_>) {
        let head = &mut self.heads[at];
        let raw = self.plans[usize::from(head.config)].raw;
        let age = world.now - i64::from(timestamp);
        if age > raw.duration() as i64 {
            return self.accept_aged(at, timestamp, value, age, world);
        }
        if age < -i64::from(ALLOWANCE * raw.resolution) {
            return self.accept_future(at, timestamp, value, -age, world);
        }
        self.sequence = world.writer.point(head.number, timestamp, value);
        if head.segment == 0 {
            head.segment = world.writer.segment();
        }
        self.put(at, raw.slot(timestamp), value, world.now);
    }

    /// Puts a point that is already in the journal into its head.
    #[inline]
    pub(crate) fn put(&mut self, at: u32, slot: u32, value: f64, now: i64) {
        let head = &mut self.heads[at];
        if head.is(flag::NEW) {
            self.begin(at, slot);
        }
        if self.limits.at_intervals && slot < self.unwritten_from[at] {
            self.heads[at].set(flag::REWRITE);
        }
        let head = &mut self.heads[at];
        match head.apply(&mut self.pool, &mut self.scratch, slot, value) {
            Applied::Held => self.ledger.held += 1,
            Applied::Replaced => self.ledger.replaced += 1,
            Applied::Advanced => {
                self.ledger.held += 1;
                self.look_whether_due(at);
            }
            Applied::Late => {
                self.ledger.held += 1;
                self.push_late(at, 0, slot, value, now);
            }
        }
    }

    /// Chooses where the head of a metric starts: at the block that its first slot's allowance
    /// reaches into.
    fn begin(&mut self, at: u32, slot: u32) {
        let head = &mut self.heads[at];
        head.clear(flag::NEW);
        head.base = self.layout.block_start(&head.id, slot.saturating_sub(ALLOWANCE)).max(0) as u32;
        head.newest = slot;
    }

    fn accept_aged(&mut self, at: u32, timestamp: u32, value: f64, age: i64, world: &mut World<'_>) {
        let head = &self.heads[at];
        let plan = Arc::clone(&self.plans[usize::from(head.config)]);
        let Some(stage) = plan.config.retention.stage_for_age(age) else {
            return self.ledger.reject(Reject::TooOld);
        };
        self.sequence = world.writer.point(head.number | (stage as u32) << NUMBER_BITS, timestamp, value);
        self.put_aged(at, stage, timestamp, value, world.now, world.writer.segment());
    }

    /// Lays a point that the raw stage no longer covers into the stage that does.
    pub(crate) fn put_aged(
        &mut self,
        at: u32,
        stage: usize,
        timestamp: u32,
        value: f64,
        now: i64,
        segment: u32,
    ) {
        let head = &mut self.heads[at];
        let plan = Arc::clone(&self.plans[usize::from(head.config)]);
        if stage > plan.coarse() {
            // The configuration lost the stage since the record was written.
            self.ledger.replaced += 1;
            return;
        }
        if head.segment == 0 {
            head.segment = segment;
        }
        if head.is(flag::NEW) {
            let slot = plan.raw.slot(u32::try_from(now).unwrap_or(u32::MAX));
            self.begin(at, slot);
        }
        self.ledger.held += 1;
        self.push_late(at, stage as u8, plan.stage(stage).slot(timestamp), value, now);
    }

    fn accept_future(&mut self, at: u32, timestamp: u32, value: f64, ahead: i64, world: &mut World<'_>) {
        if ahead > self.limits.future_max {
            return self.ledger.reject(Reject::Future);
        }
        if self.waiting.len() >= WAITING_MAX {
            return self.ledger.reject(Reject::FutureFull);
        }
        let head = &mut self.heads[at];
        self.sequence = world.writer.point(head.number | KIND_WAITING << NUMBER_BITS, timestamp, value);
        head.set(flag::SINCE);
        if head.segment == 0 {
            head.segment = world.writer.segment();
        }
        self.wait(at, timestamp, value, self.sequence);
    }

    /// Keeps a point until its time comes. The metric's state rows hold it as well.
    pub(crate) fn wait(&mut self, at: u32, timestamp: u32, value: f64, sequence: u64) {
        self.ledger.held += 1;
        self.keep_waiting(Waiting { at, timestamp, value, sequence });
    }

    fn keep_waiting(&mut self, point: Waiting) {
        self.heads[point.at].set(flag::WAITS);
        self.next_release = self.next_release.min(self.release_time(&point));
        self.waiting.push(point);
    }

    /// When a point is near enough for its head.
    fn release_time(&self, point: &Waiting) -> i64 {
        let ahead = ALLOWANCE * self.plan_of_head(point.at).raw.resolution;
        i64::from(point.timestamp) - i64::from(ahead)
    }

    fn plan_of_head(&self, at: u32) -> &Plan {
        &self.plans[usize::from(self.heads[at].config)]
    }

    /// Gives the points whose time has come to their heads, oldest first.
    pub(crate) fn release_waiting(&mut self, now: i64, writer: &mut JournalWriter) {
        if self.waiting.is_empty() || now < self.next_release {
            return;
        }
        let (mut ripe, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|w| self.release_time(w) <= now);
        for point in &ripe {
            self.heads[point.at].clear(flag::WAITS);
        }
        self.next_release = i64::MAX;
        self.segment = writer.segment();
        for point in waiting {
            self.keep_waiting(point);
        }
        // By slot, not by time: of two points of one slot the later arrival wins.
        ripe.sort_by_key(|w| self.plan_of_head(w.at).raw.slot(w.timestamp));
        for point in ripe {
            self.ledger.held -= 1;
            let head = &mut self.heads[point.at];
            // A replay must release it at this place, between the points before and after.
            self.sequence =
                writer.point(head.number | KIND_RELEASED << NUMBER_BITS, point.timestamp, point.value);
            if head.segment == 0 {
                head.segment = writer.segment();
            }
            let slot = self.plans[usize::from(head.config)].raw.slot(point.timestamp);
            self.put(point.at, slot, point.value, now);
        }
    }

    fn create(&mut self, hash: &NameHash, name: &str, world: &mut World<'_>) -> Option<u32> {
        let allowed = world.gate.check(name).and_then(|()| world.gate.admit(world.now));
        if let Err(reason) = allowed {
            self.ledger.reject(reason);
            return None;
        }
        let config = world.gate.config_for(name);
        let Some(number) = world.gate.next_number() else {
            self.ledger.reject(Reject::MemoryLimited);
            return None;
        };
        let at = self.insert(*hash, MetricId::of(name), number, &config, 0);
        self.sequence = world.writer.creation(number, name);
        self.heads[at].segment = world.writer.segment();
        world.gate.submit(NewMetric { at, name: name.to_owned(), config, created_on: world.now as u32 });
        Some(at)
    }
}

fn table_hash(hash: &NameHash) -> u64 {
    u64::from(hash[0]) | u64::from(hash[1]) << 32
}
