//! A seeded simulation of a shard, with points of every kind, overlapping flushes, deletions, and crashes at
//! any moment. At the end every slot and window must equal that of a simple model. The seed is printed, so
//! that a failure can be repeated.

mod check;
mod gate;
mod jobs;
mod ranges;

use std::collections::BTreeMap;
use std::sync::Arc;

use plumbago_index::Index;
use plumbago_journal::{Journal, JournalWriter, Record};
use plumbago_model::{Clock, ManualClock, MetricConfig, MetricId, PointBatch, Window};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{FlushStore, MetadataStore, MetricMeta, PointStore, ReadRequest, SlotRange};
use plumbago_telemetry::Registry;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::gate::OpenGate;
use super::flush::Extent;
use super::head_state::{LifeEvent, mark};
use super::*;
use crate::late::LateWorks;
use crate::late::rounds::Budget;
use crate::recover::numbers::{FreeNumbers, Numbers};
use crate::recover::{Sources, recover};
use crate::router::Router;
use crate::shard::creation::NewMetric;
use crate::shard::jobs::{Done, Flushes, Job};
use crate::shard::read::{HeadAnswer, HeadQuery};
use crate::shard::record::HeadRecord;
use crate::shard::restore::Replayed;
use crate::worker::flusher::do_job;

const START: i64 = 1_700_000_000;
/// The time that each stage covers, in seconds. With `SHORT`, some points are older than stage 0.
const LONG: [i64; 3] = [2000, 4000, 8000];
const SHORT: [i64; 3] = [200, 4000, 8000];
/// Number of raw slots in a window of each coarse stage.
const PER: [u32; 2] = [5, 20];
const RAW_SLOTS: u32 = 10;
const METHODS: [&str; 10] =
    ["average", "sum", "min", "max", "last", "count", "avg_zero", "absmax", "absmin", "p90"];

struct World {
    rng: StdRng,
    runtime: tokio::runtime::Runtime,
    clock: Arc<ManualClock>,
    dir: tempfile::TempDir,
    store: Arc<MemoryStore>,
    config: Arc<MetricConfig>,
    spans: [i64; 3],
    limits: Limits,
    /// How much the flusher reads at a time.
    budget: Budget,
    router: Router,
    stats: Stats,
    shard: Shard,
    journal: Option<Journal>,
    writer: Option<JournalWriter>,
    numbers: FreeNumbers,
    /// Jobs that the store has committed, but whose acknowledgement the shard has not received.
    unacknowledged: Vec<Done>,
    jobs: Vec<Job>,
    /// The late points that the flusher is working on.
    late: LateWorks,
    model: BTreeMap<(usize, u32), f64>,
    /// Windows of stage 1 that were replaced by a point older than stage 0: the value by metric and window. `None` once
    /// a younger point caused the window to be folded again.
    aged: BTreeMap<(usize, u32), Option<f64>>,
    crashes: u32,
    /// How many starts used a checkpoint.
    loaded: u32,
    forgotten: u32,
    /// How many times late points had to wait in the journal.
    waited: u32,
    /// A deletion of a range that has begun.
    erasing: Option<ranges::Erasing>,
    erased: u32,
}

impl World {
    fn new(seed: u64, method: &str, spans: [i64; 3], at_intervals: bool) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut few = |max: usize| if rng.random_bool(0.5) { rng.random_range(1..max) } else { 10_000 };
        let limits = limits(at_intervals, few(20));
        let budget = Budget { metric_slots: few(30) as u32, call_slots: few(100), kept_bytes: few(500) };
        let registry = Registry::new();
        let clock = Arc::new(ManualClock::at(START));
        let dir = tempfile::tempdir().unwrap();
        let journal = open(&dir, &clock);
        let store = Arc::new(MemoryStore::new(if at_intervals { 1 } else { RAW_SLOTS }));
        let stats = Stats::new(&registry);
        let writer = journal.writer();
        let config = Arc::new(MetricConfig {
            retention: format!("1s:{}s,5s:{}s,20s:{}s", spans[0], spans[1], spans[2]).parse().unwrap(),
            aggregation: method.parse().unwrap(),
            x_files_factor: 0.0,
        });
        Self {
            rng,
            runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
            shard: Shard::new(store.layout(), limits, stats.clone()),
            limits,
            budget,
            clock,
            dir,
            store,
            config,
            spans,
            router: Router::new(7, 1),
            stats,
            journal: Some(journal),
            writer: Some(writer),
            numbers: Numbers::default().free(),
            unacknowledged: Vec::new(),
            jobs: Vec::new(),
            late: LateWorks::default(),
            model: BTreeMap::new(),
            aged: BTreeMap::new(),
            crashes: 0,
            loaded: 0,
            forgotten: 0,
            waited: 0,
            erasing: None,
            erased: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..55 => self.points(),
            55..57 => self.forget(),
            57..60 => self.erase(),
            60..75 => self.clock.advance(self.rng.random_range(1..9)),
            75..85 => self.build(),
            85..92 => self.work(),
            92..98 => self.acknowledge(),
            98 => self.crash(),
            _ => self.stop_and_start(),
        }
    }

    /// Stops with a checkpoint, after everything on its way to the store has arrived, and starts from it.
    fn stop_and_start(&mut self) {
        if self.limits.at_intervals || self.erasing.is_some() || self.shard.has_jobs() {
            return;
        }
        self.settle(1);
        let segment = self.journal.as_ref().unwrap().current_segment();
        let (mut bytes, mut hashes) = (Vec::new(), Vec::new());
        for metric in 0..3 {
            let hash = self.router.hash(&format!("m.{metric}"));
            if let Some(at) = self.shard.find(&hash) {
                self.shard.put_record(at, &[0], segment, &mut bytes);
                hashes.push(hash);
            }
        }
        let mut shard = Shard::new(self.store.layout(), self.limits, self.stats.clone());
        let mut rest = &bytes[..];
        for hash in hashes {
            let record = HeadRecord::take(&mut rest, &[PER.len()]).unwrap();
            shard.take_record(hash, &record, &self.config, segment).unwrap();
        }
        assert!(rest.is_empty());
        shard.end_load(self.shard.ledger.held, self.shard.sequence);
        self.shard = shard;
        self.loaded += 1;
        self.balance();
    }

    fn points(&mut self) {
        let now = self.clock.now();
        self.release();
        let mut batch = PointBatch::default();
        for _ in 0..self.rng.random_range(1..6) {
            // The third metric gets few points, and none for minutes at a time.
            let metric = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2][self.rng.random_range(0..12)];
            if metric == 2 && (now - START) % 300 > 100 {
                continue;
            }
            let shift: i64 = match self.rng.random_range(0..20) {
                0 => -self.rng.random_range(20..100),
                5 if self.spans == SHORT => -self.rng.random_range(201..400),
                1..4 => -self.rng.random_range(0..45),
                4 => self.rng.random_range(0..50),
                _ => 0,
            };
            let timestamp = (now + shift).max(START - 500) as u32;
            let value = f64::from(self.rng.random_range(-1000..1000)) * 0.1;
            batch.push(&format!("m.{metric}"), timestamp, value);
            self.remember(metric, timestamp, value, now);
        }
        self.apply(batch, now);
    }

    fn apply(&mut self, batch: PointBatch, now: i64) {
        let Some((_, entries)) = self.router.route(&batch).pop() else { return };
        let share = ShardBatch { batch: Arc::new(batch), entries };
        let Some(writer) = self.writer.as_mut() else { return };
        let mut gate =
            OpenGate { config: Arc::clone(&self.config), numbers: &mut self.numbers, made: Vec::new() };
        let mut context = ApplyContext { writer, gate: &mut gate, now };
        self.shard.apply(&share, 0, &mut context).unwrap();
        writer.write_out().unwrap();
        let made = gate.made;
        self.create(made);
    }

    /// Forgets a metric without recent points, as maintenance does.
    fn forget(&mut self) {
        let metric = 2;
        let name = format!("m.{metric}");
        let Some(writer) = self.writer.as_mut() else { return };
        let is_known = self.shard.find(&self.router.hash(&name)).is_some();
        let forgotten = self.shard.forget(&self.router.hash(&name), self.clock.now() - 30, writer);
        writer.write_out().unwrap();
        if !(is_known && forgotten) {
            return;
        }
        self.forgotten += 1;
        let stages = vec![(MetricId::of(&name), self.config.retention.stages().to_vec())];
        self.runtime.block_on(PointStore::delete(&*self.store, &stages)).unwrap();
        self.runtime.block_on(MetadataStore::delete(&*self.store, &[&name])).unwrap();
        self.model.retain(|(of, _), _| *of != metric);
        self.aged.retain(|(of, _), _| *of != metric);
    }

    fn remember(&mut self, metric: usize, timestamp: u32, value: f64, now: i64) {
        let window = (metric, timestamp / PER[0]);
        if now - i64::from(timestamp) > self.spans[0] {
            self.aged.insert(window, Some(value));
        } else {
            self.aged.entry(window).and_modify(|value| *value = None);
            self.model.insert((metric, timestamp), value);
        }
    }

    fn release(&mut self) {
        let Some(writer) = self.writer.as_mut() else { return };
        self.shard.release_future(self.clock.now(), writer);
        writer.write_out().unwrap();
    }

    fn create(&mut self, made: Vec<NewMetric>) {
        for metric in made {
            let meta = MetricMeta { name: metric.name, config: metric.config, created_on: metric.created_on };
            self.runtime.block_on(self.store.create(&[meta])).unwrap();
            self.shard.heads[metric.at].state.on_life(LifeEvent::Create);
        }
    }

    fn build(&mut self) {
        self.release();
        self.read_waiting();
        if let Some(flushes) = self.shard.take_aged(1, self.clock.now()) {
            self.jobs.extend(flushes.into_jobs());
        }
        if let Some(job) = self.shard.take_late() {
            self.jobs.push(Job::Late(job));
        }
        let mut job = Flushes::default();
        match self.rng.random_range(0..6) {
            0 => self.each(&mut job, Extent::State),
            1 => self.each(&mut job, Extent::All { now: self.clock.now() }),
            3 if self.limits.at_intervals => self.each(&mut job, Extent::Interval { open: true }),
            2 => self.shard.sweep(10, 1, self.clock.now(), &mut job),
            _ => {
                self.shard.begin_due();
                job = self.shard.take_due(10, 1).unwrap_or_default();
                self.shard.due.extend(std::mem::take(&mut self.shard.flushing));
            }
        }
        self.jobs.extend(job.into_jobs());
    }

    fn each(&mut self, job: &mut Flushes, extent: Extent) {
        for at in 0..self.shard.len() as u32 {
            if self.shard.may_flush(at) {
                self.shard.build(at, extent, 1, job);
            }
        }
    }

    /// Reads a part of the journal again, if late points wait there and memory has room.
    fn read_waiting(&mut self) {
        self.waited += u32::from(self.shard.ledger().waiting > 0);
        let (Some(position), Some(journal)) = (self.shard.waits_from(), &self.journal) else { return };
        let (shard, now) = (&mut self.shard, self.clock.now());
        let mut take = |record: Record<'_>| {
            if let Record::Point { sequence, metric, timestamp, value } = record {
                shard.take_again(&Replayed { sequence, metric, timestamp, value }, now);
            }
        };
        let bytes = self.rng.random_range(1..5000);
        let (next, is_end) = journal.read_again(position, bytes, &mut take).unwrap();
        self.shard.end_reading(next, is_end);
    }

    /// Loses jobs, acknowledgements and the memory, then recovers from the store and the journal.
    fn crash(&mut self) {
        self.crashes += 1;
        if self.rng.random_bool(0.5) {
            // The flusher had processed half of its queue.
            let left = self.jobs.len() / 2;
            self.jobs.truncate(left);
            self.work();
        }
        (self.jobs, self.unacknowledged) = (Vec::new(), Vec::new());
        self.late = LateWorks::default();
        self.writer = None;
        self.journal.take().unwrap().close().unwrap();
        let journal = open(&self.dir, &self.clock);
        let mut shards = [Shard::new(self.store.layout(), self.limits, self.stats.clone())];
        let config = Arc::clone(&self.config);
        let config_for: creation::ConfigFor = Arc::new(move |_| Arc::clone(&config));
        let metadata: Arc<dyn MetadataStore> = Arc::<MemoryStore>::clone(&self.store);
        let sources = Sources {
            metadata: &metadata,
            flush: &*self.store,
            journal: &journal,
            index: &Arc::new(Index::new(&Registry::new())),
            router: self.router,
            config_for: &config_for,
            quotas: &crate::quotas::Quotas::default(),
            now: self.clock.now(),
        };
        let start = self.runtime.block_on(recover(&sources, &mut shards)).unwrap();
        assert_eq!(start.report.unexplained, 0);
        self.numbers = start.numbers;
        let [shard] = shards;
        self.shard = shard;
        self.writer = Some(journal.writer());
        self.journal = Some(journal);
        for made in start.creations {
            self.create(made);
        }
        self.balance();
        self.erase_again();
    }

    fn balance(&self) {
        assert_eq!(self.shard.ledger.missing(), 0, "{:?}", self.shard.ledger);
        assert_eq!(self.shard.ledger.rejected[Reject::JournalDamaged as usize], 0);
    }

    /// Runs rounds, at least this many, until all late points have reached the store.
    fn settle(&mut self, rounds: u32) {
        for round in 0.. {
            if round >= rounds && self.shard.late.is_idle() {
                return;
            }
            assert!(round < 10_000, "late points are left: {:?}", self.shard.late);
            self.build();
            self.work();
            self.acknowledge();
        }
    }
}

fn limits(at_intervals: bool, late_points: usize) -> Limits {
    Limits {
        at_intervals,
        emit_open: false,
        future_max: 3600,
        checkpoint_segments: 1,
        idle_after: 60,
        late_points,
    }
}

fn open(dir: &tempfile::TempDir, clock: &Arc<ManualClock>) -> Journal {
    let config = plumbago_journal::Config { min_free_bytes: 0, ..Default::default() };
    let clock = Arc::<ManualClock>::clone(clock);
    Journal::open(&dir.path().join("journal"), config, clock, &Registry::new()).unwrap()
}

#[test]
fn every_slot_and_window_survives_crashes() {
    let first: u64 = std::env::var("PLUMBAGO_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut crashes, mut loaded, mut forgotten, mut waited, mut erased) = (0, 0, 0, 0, 0);
    for (i, method) in METHODS.iter().cycle().take(4 * METHODS.len()).enumerate() {
        let seed = first + i as u64;
        println!("seed {seed} {method}");
        let spans = if (i / METHODS.len()).is_multiple_of(2) { LONG } else { SHORT };
        let mut world = World::new(seed, method, spans, i >= 2 * METHODS.len());
        for _ in 0..600 {
            world.step();
        }
        world.end_erasing();
        // Release all future points, and let all late points reach the store.
        for _ in 0..20 {
            world.clock.advance(10);
            world.build();
            world.work();
            world.acknowledge();
        }
        world.settle(0);
        world.check();
        world.crash();
        world.settle(0);
        world.check();
        world.check_store_alone();
        crashes += world.crashes;
        loaded += world.loaded;
        forgotten += world.forgotten;
        waited += world.waited;
        erased += world.erased;
    }
    assert!(crashes > 60, "{crashes} crashes only");
    assert!(loaded > 30, "{loaded} starts from a checkpoint only");
    assert!(forgotten > 10, "{forgotten} metrics forgotten only");
    assert!(erased > 80, "{erased} ranges deleted only");
    assert!(waited > 200, "late points waited {waited} times only");
}

/// A flush of the whole head extends past its newest slot. A point after that slot can arrive while the flush
/// is in flight. Such a point is in none of the flush's rows, so it must stay in the head.
#[test]
fn a_point_in_the_middle_of_a_whole_flush_is_kept() {
    for at_intervals in [false, true] {
        let mut world = World::new(1, "sum", LONG, at_intervals);
        let point = |world: &mut World, timestamp: i64| {
            let mut batch = PointBatch::default();
            batch.push("m.0", timestamp as u32, 1.0);
            let now = world.clock.now();
            world.remember(0, timestamp as u32, 1.0, now);
            world.apply(batch, now);
        };
        point(&mut world, START);
        world.clock.advance(100);
        let mut job = Flushes::default();
        world.each(&mut job, Extent::All { now: START + 100 });
        world.jobs.extend(job.into_jobs());
        world.work();
        point(&mut world, START + 60);
        world.acknowledge();
        world.check();
    }
}

/// The disk damages the part of the journal in which late points wait. These points are counted as rejected.
#[test]
fn late_points_that_the_journal_loses_are_counted() {
    let mut world = World::new(1, "sum", LONG, false);
    world.limits.late_points = 2;
    world.shard.limits = world.limits;
    let send = |world: &mut World, timestamps: &[i64]| {
        let mut batch = PointBatch::default();
        timestamps.iter().for_each(|timestamp| batch.push("m.0", *timestamp as u32, 1.0));
        let now = world.clock.now();
        world.apply(batch, now);
    };
    send(&mut world, &[START]);
    world.clock.advance(100);
    let mut flushes = Flushes::default();
    world.each(&mut flushes, Extent::All { now: START + 100 });
    world.jobs.extend(flushes.into_jobs());
    world.work();
    world.acknowledge();
    send(&mut world, &[START + 1, START + 2]);
    send(&mut world, &[START + 3, START + 4, START + 5]);
    assert_eq!((world.shard.ledger().waiting, world.shard.ledger.held), (3, 5));
    for entry in std::fs::read_dir(world.dir.path().join("journal")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let len = path.metadata().unwrap().len();
            std::fs::write(&path, vec![0; len as usize]).unwrap();
        }
    }
    while !world.shard.late.is_idle() {
        world.build();
        world.work();
        for done in std::mem::take(&mut world.unacknowledged) {
            match done {
                Done::Flush(items) => world.shard.flush_done(items),
                Done::Late(late) => world.shard.late_done(late),
            }
        }
    }
    let ledger = world.shard.ledger();
    assert_eq!((ledger.missing(), ledger.held, ledger.waiting), (0, 0, 0), "{ledger:?}");
    assert_eq!(ledger.rejected[Reject::JournalDamaged as usize], 3);
    assert!(!world.shard.heads[0].state.has_late());
}
