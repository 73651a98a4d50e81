//! A seeded simulation of a shard: points of every kind, overlapping flushes, and crashes at any moment. At
//! the end every slot and window must equal the results of a simple model. The seed is printed, so that a
//! failure can be repeated.

use std::collections::BTreeMap;
use std::sync::Arc;

use plumbago_index::Index;
use plumbago_journal::{Journal, JournalWriter};
use plumbago_model::{Clock, ManualClock, MetricConfig, MetricId, PointBatch, Window};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{FlushStore, MetadataStore, MetricMeta, PointStore, ReadRequest, SlotRange};
use plumbago_telemetry::Registry;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::flush::Extent;
use super::head_state::{LifeEvent, mark};
use super::*;
use crate::recover::numbers::{FreeNumbers, Numbers};
use crate::recover::{Sources, recover};
use crate::router::Router;
use crate::shard::jobs::{Done, Flushes, Job};
use crate::shard::read::{HeadAnswer, HeadQuery};
use crate::worker::flusher::do_job;

const START: i64 = 1_700_000_000;
/// Time that each stage covers, in seconds. With `SHORT`, some points are older than stage 0.
const LONG: [i64; 3] = [2000, 4000, 8000];
const SHORT: [i64; 3] = [200, 4000, 8000];
/// Number of raw slots in a window of each coarse stage.
const PER: [u32; 2] = [5, 20];
const RAW_SLOTS: u32 = 10;
const METHODS: [&str; 10] =
    ["average", "sum", "min", "max", "last", "count", "avg_zero", "absmax", "absmin", "p90"];

/// A gate that accepts every metric.
struct OpenGate<'a> {
    config: Arc<MetricConfig>,
    numbers: &'a mut FreeNumbers,
    made: Vec<NewMetric>,
}

impl CreateGate for OpenGate<'_> {
    fn is_full(&self) -> bool {
        false
    }
    fn admit(&mut self, _: i64) -> Result<(), Reject> {
        Ok(())
    }
    fn config_for(&self, _: &str) -> Arc<MetricConfig> {
        Arc::clone(&self.config)
    }
    fn next_number(&mut self) -> Option<u32> {
        self.numbers.take_lowest()
    }
    fn submit(&mut self, metric: NewMetric) {
        self.made.push(metric);
    }
}

struct World {
    rng: StdRng,
    runtime: tokio::runtime::Runtime,
    clock: Arc<ManualClock>,
    dir: tempfile::TempDir,
    store: Arc<MemoryStore>,
    config: Arc<MetricConfig>,
    spans: [i64; 3],
    at_intervals: bool,
    router: Router,
    stats: Stats,
    shard: Shard,
    journal: Option<Journal>,
    writer: Option<JournalWriter>,
    numbers: FreeNumbers,
    /// Jobs that the store has committed, but whose acknowledgement the shard has not received.
    unacknowledged: Vec<Done>,
    jobs: Vec<Job>,
    model: BTreeMap<(usize, u32), f64>,
    /// The values of stage 1 windows that a point older than stage 0 replaced, by metric and window. `None`
    /// once a younger point caused the window to be folded again.
    aged: BTreeMap<(usize, u32), Option<f64>>,
    crashes: u32,
    forgotten: u32,
}

impl World {
    fn new(seed: u64, method: &str, spans: [i64; 3], at_intervals: bool) -> Self {
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
            rng: StdRng::seed_from_u64(seed),
            runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
            shard: Shard::new(store.layout(), limits(at_intervals), stats.clone()),
            at_intervals,
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
            model: BTreeMap::new(),
            aged: BTreeMap::new(),
            crashes: 0,
            forgotten: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..58 => self.points(),
            58..60 => self.forget(),
            60..75 => self.clock.advance(self.rng.random_range(1..9)),
            75..85 => self.build(),
            85..92 => self.work(),
            92..98 => self.acknowledge(),
            _ => self.crash(),
        }
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

    /// Deletes a metric without recent points, as maintenance does.
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
            3 if self.at_intervals => self.each(&mut job, Extent::Interval { open: true }),
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

    fn work(&mut self) {
        for mut job in std::mem::take(&mut self.jobs) {
            let done = do_job(&*self.store, &*self.store, self.runtime.handle(), &mut job).unwrap();
            self.unacknowledged.push(done);
        }
    }

    fn acknowledge(&mut self) {
        for done in std::mem::take(&mut self.unacknowledged) {
            match done {
                Done::Flush(items) => self.shard.flush_done(items),
                Done::Late(late) => self.shard.late_done(late),
            }
        }
        self.balance();
    }

    /// Loses jobs, acknowledgements and all memory, then recovers from the store and the journal.
    fn crash(&mut self) {
        self.crashes += 1;
        if self.rng.random_bool(0.5) {
            // The flusher had processed half of its queue.
            let left = self.jobs.len() / 2;
            self.jobs.truncate(left);
            self.work();
        }
        (self.jobs, self.unacknowledged) = (Vec::new(), Vec::new());
        self.writer = None;
        self.journal.take().unwrap().close().unwrap();
        let journal = open(&self.dir, &self.clock);
        let mut shards = [Shard::new(self.store.layout(), limits(self.at_intervals), self.stats.clone())];
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
    }

    fn balance(&self) {
        assert_eq!(self.shard.ledger.missing(), 0, "{:?}", self.shard.ledger);
    }

    /// Compares every stage, read from heads and store, with the model.
    fn check(&mut self) {
        for metric in 0..3 {
            let id = MetricId::of(&format!("m.{metric}"));
            let hash = self.router.hash(&format!("m.{metric}"));
            if self.shard.find(&hash).is_none() {
                continue;
            }
            for (stage, span) in self.spans.into_iter().enumerate() {
                let now = self.clock.now();
                let age = span - 1;
                let query = HeadQuery { hashes: vec![hash], from: now - age, until: now, now };
                let answer = self.shard.read(&query, &hash).unwrap();
                assert_eq!(answer.stage, stage);
                let range = SlotRange {
                    id,
                    stage: self.config.retention.stages()[stage],
                    stage_index: stage as u8,
                    aggregation: self.config.aggregation,
                    from: answer.slots.0,
                    until: answer.slots.1,
                };
                let request = ReadRequest { ranges: vec![range], ..Default::default() };
                let mut column = self.runtime.block_on(self.store.read(&request)).unwrap().remove(0);
                let whole = self.whole_first(&answer);
                let got = crate::read::merge(&answer, &mut column, whole);
                let expected = self.expected(metric, &answer);
                let differ = got.iter().zip(&expected).enumerate().position(|(i, (a, b))| {
                    bits(*a) != bits(*b) && !self.mixed(metric, stage, answer.slots.0 + i as u32)
                });
                if let Some(at) = differ {
                    let slot = answer.slots.0 + at as u32;
                    let base = answer.base;
                    panic!(
                        "metric {metric} stage {stage} slot {slot} base {base}: {} for {}",
                        got[at], expected[at]
                    );
                }
            }
        }
    }

    /// With flushes at intervals, after a clean stop, the store alone must match the model.
    fn check_store_alone(&mut self) {
        if !self.at_intervals {
            return;
        }
        for _ in 0..3 {
            self.build();
            self.work();
            self.acknowledge();
        }
        let mut job = Flushes::default();
        self.each(&mut job, Extent::Last);
        self.jobs.extend(job.into_jobs());
        self.work();
        self.acknowledge();
        // A head without slots contributes nothing to a read.
        for at in 0..self.shard.len() as u32 {
            let head = &mut self.shard.heads[at];
            head.refill(&mut self.shard.pool, &mut self.shard.scratch, &[]);
            head.clear(mark::PLACED);
        }
        self.check();
    }

    fn whole_first(&self, answer: &HeadAnswer) -> Option<plumbago_store::Column> {
        let range = crate::read::window_ranges(answer)?;
        let mut read = self
            .runtime
            .block_on(self.store.read(&ReadRequest { ranges: vec![range], ..Default::default() }))
            .unwrap();
        Some(read.remove(0))
    }

    /// True for a window of stage 2 that contains a replaced window of stage 1: its value depends on when it
    /// was folded.
    fn mixed(&self, metric: usize, stage: usize, slot: u32) -> bool {
        let parts = PER[1] / PER[0];
        stage == 2 && self.aged.range((metric, slot * parts)..(metric, (slot + 1) * parts)).next().is_some()
    }

    fn expected(&self, metric: usize, answer: &HeadAnswer) -> Vec<f64> {
        let method = self.config.aggregation;
        let per = if answer.stage == 0 { 1 } else { answer.layout.per[answer.stage - 1] };
        (answer.slots.0..answer.slots.1)
            .map(|slot| {
                let slots =
                    self.model.range((metric, slot * per)..(metric, (slot + 1) * per)).map(|(_, v)| *v);
                if answer.stage == 0 {
                    return self.model.get(&(metric, slot)).copied().unwrap_or(f64::NAN);
                }
                if let Some(Some(value)) = self.aged.get(&(metric, slot)).filter(|_| answer.stage == 1) {
                    return method.finish(method.window_of(*value, per), per);
                }
                let window: Window = method.fold_all(slots);
                method.finish(window, per)
            })
            .collect()
    }
}

fn bits(value: f64) -> u64 {
    if value.is_nan() { u64::MAX } else { value.to_bits() }
}

fn limits(at_intervals: bool) -> Limits {
    Limits { at_intervals, emit_open: false, future_max: 3600, checkpoint_segments: 1, idle_after: 60 }
}

fn open(dir: &tempfile::TempDir, clock: &Arc<ManualClock>) -> Journal {
    let config = plumbago_journal::Config { min_free_bytes: 0, ..Default::default() };
    let clock = Arc::<ManualClock>::clone(clock);
    Journal::open(&dir.path().join("journal"), config, clock, &Registry::new()).unwrap()
}

#[test]
fn every_slot_and_window_survives_crashes() {
    let first: u64 = std::env::var("PLUMBAGO_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut crashes, mut forgotten) = (0, 0);
    for (i, method) in METHODS.iter().cycle().take(4 * METHODS.len()).enumerate() {
        let seed = first + i as u64;
        println!("seed {seed} {method}");
        let spans = if (i / METHODS.len()).is_multiple_of(2) { LONG } else { SHORT };
        let mut world = World::new(seed, method, spans, i >= 2 * METHODS.len());
        for _ in 0..600 {
            world.step();
        }
        // Release all future points, and let all late points reach the store.
        for _ in 0..20 {
            world.clock.advance(10);
            world.build();
            world.work();
            world.acknowledge();
        }
        world.check();
        world.crash();
        world.check();
        world.check_store_alone();
        crashes += world.crashes;
        forgotten += world.forgotten;
    }
    assert!(crashes > 60, "{crashes} crashes only");
    assert!(forgotten > 20, "{forgotten} metrics forgotten only");
}

/// A flush of the whole head extends past its newest slot. A point after that slot can arrive while the flush
/// is in flight. It is in none of the flush's rows, so it must stay in the head.
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
