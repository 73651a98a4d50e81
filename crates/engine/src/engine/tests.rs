//! Tests of the whole engine with a store in memory: a stuck shard, a stuck store, a failing store, and a
//! restart.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use plumbago_index::Index;
use plumbago_journal::Journal;
use plumbago_model::{ManualClock, MetricConfig, MetricId, PointBatch, Series};
use plumbago_store::layer::{Faults, Faulty};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{BlockLayout, Capabilities, FlushBatch, FlushStore, Store, StoreError};
use plumbago_telemetry::Registry;

use super::*;
use crate::recover::{Recovered, StartError};
use plumbago_store::{FetchRequest, MetricMeta, SeriesSource};

mod change;
mod checkpoint;
mod copy;
mod history;
mod known;
mod late;
mod quotas;
mod ranges;
mod settings;

const START: i64 = 1_700_000_000;
/// A timeout for stops that must complete.
const LONG: Duration = Duration::from_secs(600);

/// While closed, blocks every thread that calls `pass`.
#[derive(Debug, Default)]
struct Gate(Mutex<GateState>, Condvar);

#[derive(Debug, Default)]
struct GateState {
    closed: bool,
    blocked: usize,
}

impl Gate {
    fn set_closed(&self, closed: bool) {
        self.0.lock().unwrap().closed = closed;
        self.1.notify_all();
    }

    fn pass(&self) {
        let mut state = self.0.lock().unwrap();
        state.blocked += 1;
        self.1.notify_all();
        state = self.1.wait_while(state, |state| state.closed).unwrap();
        state.blocked -= 1;
    }

    /// Returns once a thread is blocked here.
    fn wait_for_blocked(&self) {
        let state = self.0.lock().unwrap();
        drop(self.1.wait_while(state, |state| !(state.closed && state.blocked > 0)).unwrap());
    }
}

/// A store that can fail, with a gate in front of its commits.
#[derive(Debug)]
struct GatedStore {
    inner: Faulty<MemoryStore>,
    gate: Arc<Gate>,
}

impl Store for GatedStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

impl FlushStore for GatedStore {
    fn layout(&self) -> BlockLayout {
        self.inner.layout()
    }

    fn commit(&self, batch: &FlushBatch) -> Result<(), StoreError> {
        self.gate.pass();
        self.inner.commit(batch)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError> {
        self.inner.scan_states(visit)
    }

    fn note_checkpoint(&self, stamp: [u8; 16]) -> Result<(), StoreError> {
        self.inner.note_checkpoint(stamp)
    }

    fn checkpoint(&self) -> Result<Option<[u8; 16]>, StoreError> {
        self.inner.checkpoint()
    }

    fn take_held(&self) -> Result<Option<u64>, StoreError> {
        self.inner.take_held()
    }
}

/// What remains when an engine stops, and the gates with which a test can block an engine.
struct World {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    memory: MemoryStore,
    faults: Faults,
    /// Blocks commits.
    commits: Arc<Gate>,
    /// Blocks the worker of a shard that creates a metric called `stuck…`.
    creations: Arc<Gate>,
    shards: usize,
    quotas: Arc<Quotas>,
    /// Whether stops leave a checkpoint.
    checkpoint: bool,
}

impl World {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(START)),
            memory: MemoryStore::new(10),
            faults: Faults::by_chance(1, 0.0),
            commits: Arc::default(),
            creations: Arc::default(),
            shards: 2,
            quotas: Arc::default(),
            checkpoint: false,
        }
    }

    /// Starts an engine on this journal and store.
    async fn start(&self) -> (Engine, Recovered) {
        let registry = Registry::new();
        let store = Faulty::new(self.memory.clone(), self.faults.clone());
        let settings = plumbago_journal::Config { min_free_bytes: 0, ..Default::default() };
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&self.clock);
        let config = |method: &str| {
            Arc::new(MetricConfig {
                retention: "1s:1000s,10s:10000s".parse().unwrap(),
                aggregation: method.parse().unwrap(),
                x_files_factor: 0.0,
            })
        };
        let long =
            MetricConfig { retention: "1s:100d".parse().unwrap(), ..MetricConfig::clone(&config("sum")) };
        let p95 = MetricConfig {
            retention: "1s:1000s,10s:200d".parse().unwrap(),
            ..MetricConfig::clone(&config("p95"))
        };
        let configs = [
            ("sum", config("sum")),
            ("max", config("max")),
            ("long", Arc::new(long)),
            ("p95", Arc::new(p95)),
            ("", config("average")),
        ];
        let creations = Arc::clone(&self.creations);
        let parts = EngineParts {
            clock: Arc::clone(&clock),
            index: Arc::new(Index::new(&registry)),
            points: Arc::new(store.clone()),
            flush: Arc::new(GatedStore { inner: store.clone(), gate: Arc::clone(&self.commits) }),
            metadata: Arc::new(store),
            journal: Journal::open(&self.dir.path().join("journal"), settings, clock, &registry).unwrap(),
            checkpoint: self.checkpoint.then(|| self.dir.path().join("checkpoint")),
            journal_segment: Duration::from_secs(300),
            config_for: Arc::new(move |name| {
                if name.starts_with("stuck") {
                    creations.pass();
                }
                let found = configs.iter().find(|(prefix, _)| name.starts_with(prefix));
                found.map(|(_, config)| Arc::clone(config)).unwrap()
            }),
            name_check: Arc::new(|_| Ok(())),
            memory_used: Arc::new(|| 0),
            memory_reserved: 0,
            conditions: Conditions::new(&registry),
            quotas: Arc::clone(&self.quotas),
            registry,
        };
        let engine = Engine::new(
            Config { shards: self.shards, checkpoint_min_metrics: 0, ..Config::default() },
            parts,
        );
        let recovered = engine.start().await.unwrap();
        (engine, recovered)
    }

    /// Stops an engine and closes its journal, so that the next engine can open it.
    async fn stop(&self, engine: Engine) -> Ledger {
        let ledger = engine.stop(LONG).await;
        engine.0.parts.journal.clone().close().unwrap();
        ledger
    }
}

/// The first `count` names with this prefix that belong to the shard.
fn names(engine: &Engine, prefix: &str, shard: usize, count: usize) -> Vec<String> {
    let router = engine.0.router;
    let all = (0..).map(|n| format!("{prefix}.{n}"));
    all.filter(|name| router.shard(&router.hash(name)) == shard).take(count).collect()
}

/// A batch with one point of each metric.
fn batch<'a>(names: impl IntoIterator<Item = &'a String>, timestamp: i64, value: f64) -> PointBatch {
    let mut batch = PointBatch::default();
    names.into_iter().for_each(|name| batch.push(name, timestamp as u32, value));
    batch
}

/// A read of the last `seconds`, whose length decides which stage answers.
fn last(engine: &Engine, names: Vec<Arc<str>>, seconds: i64) -> FetchRequest {
    let now = engine.0.parts.clock.now();
    FetchRequest { names, from: now - seconds, until: now, now, slots_max: usize::MAX }
}

/// The known values of each metric in the last `seconds`.
async fn values(engine: &Engine, names: &[String], seconds: i64) -> Vec<Vec<f64>> {
    let names = names.iter().map(|name| Arc::from(name.as_str())).collect();
    let series = engine.reader().fetch(&last(engine, names, seconds)).await.unwrap();
    let known = |series: Series| series.values.into_iter().filter(|value| !value.is_nan()).collect();
    series.into_iter().map(known).collect()
}

/// Blocks the worker of shard 0 and fills its queue. Returns the number of pushed points.
async fn block_shard_0(world: &World, engine: &Engine) -> u64 {
    world.creations.set_closed(true);
    let stuck = names(engine, "stuck", 0, 1);
    assert!(engine.push(batch(&stuck, START, 1.0)).await);
    let creations = Arc::clone(&world.creations);
    tokio::task::spawn_blocking(move || creations.wait_for_blocked()).await.unwrap();
    let mut queued = 1;
    while engine.try_push(batch(&stuck, START, 1.0)).is_ok() {
        queued += 1;
    }
    queued
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_stuck_delays_no_points_and_reads_of_others() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let queued = block_shard_0(&world, &engine).await;
    let free = names(&engine, "free", 1, 10);
    assert!(engine.push(batch(&free, START, 1.0)).await);
    assert!(engine.try_push(batch(&free, START - 1, 2.0)).is_ok());
    assert_eq!(engine.0.stats.received.get(), queued + 20);
    assert!(values(&engine, &free, 10).await.iter().all(|values| values == &[2.0, 1.0]));
    let asked: Vec<&str> = free.iter().map(String::as_str).collect();
    assert_eq!(engine.contains(&asked).await.unwrap(), [true; 10]);
    assert_eq!(engine.are_written(&asked, START).await.unwrap(), [true; 10]);
    assert_eq!(engine.forget(&asked, START).await.unwrap(), [false; 10]);

    // A batch for both shards. `try_push` queues all or nothing; `push` queues the points of each shard once
    // its queue has space.
    let of_both: Vec<String> = free.iter().cloned().chain(names(&engine, "both", 0, 1)).collect();
    let back = engine.try_push(batch(&of_both, START - 2, 3.0)).unwrap_err();
    assert_eq!((back.len(), engine.0.stats.received.get()), (11, queued + 20));
    let push = tokio::spawn({
        let engine = engine.clone();
        async move { engine.push(batch(&of_both, START - 2, 3.0)).await }
    });
    while values(&engine, &free, 10).await[0].len() < 3 {
        tokio::task::yield_now().await;
    }
    assert!(!push.is_finished());
    assert_eq!(engine.0.stats.received.get(), queued + 30);

    world.creations.set_closed(false);
    assert!(push.await.unwrap());
    let ledger = world.stop(engine).await;
    assert_eq!((ledger.received, ledger.missing()), (queued + 31, 0));
}

/// This condition is the only sign that new metrics are not created while points of known metrics are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_metrics_that_cannot_be_written_are_a_condition() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let conditions = &engine.0.parts.conditions;
    let all = names(&engine, "m", 0, 1);
    world.faults.set_down(true);
    assert!(engine.push(batch(&all, START, 1.0)).await);
    while !conditions.contains("new_metrics") {
        tokio::task::yield_now().await;
    }
    world.faults.set_down(false);
    while conditions.contains("new_metrics") {
        tokio::task::yield_now().await;
    }
    assert_eq!(values(&engine, &all, 10).await, [[1.0]]);
    world.stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_stuck_delays_neither_points_nor_reads() {
    let world = World::new();
    let (engine, _) = world.start().await;
    world.commits.set_closed(true);
    let all: Vec<String> = [0, 1].iter().flat_map(|shard| names(&engine, "m", *shard, 50)).collect();
    // Blocks fill up and are flushed. The flushes wait in the store, because the gate for commits is
    // closed.
    for second in 1..=100 {
        world.clock.advance(1);
        assert!(engine.push(batch(&all, START + second, second as f64)).await);
    }
    let flush = tokio::spawn({
        let engine = engine.clone();
        async move { engine.flush_all().await }
    });
    let commits = Arc::clone(&world.commits);
    tokio::task::spawn_blocking(move || commits.wait_for_blocked()).await.unwrap();
    world.clock.advance(1);
    assert!(engine.push(batch(&all, START + 101, 101.0)).await);
    let expected: Vec<f64> = (1..=101).map(f64::from).collect();
    assert!(values(&engine, &all, 200).await.iter().all(|values| *values == expected));
    let ledger = engine.ledger().await.unwrap();
    assert_eq!((ledger.received, ledger.held, ledger.stored, ledger.missing()), (10_100, 10_100, 0, 0));
    assert!(!flush.is_finished());

    // A stop gives up after its timeout; the points are in the journal.
    let ledger = engine.stop(Duration::from_millis(1)).await;
    assert_eq!((ledger.received, ledger.missing()), (10_100, 0));
    world.commits.set_closed(false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_at_times_gets_every_point() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let all: Vec<String> = [0, 1].iter().flat_map(|shard| names(&engine, "m", *shard, 20)).collect();
    world.faults.set_chance(0.3);
    for second in 1..=60 {
        world.clock.advance(1);
        assert!(engine.push(batch(&all, START + second, second as f64)).await);
        if second % 20 == 0 {
            engine.flush_all().await.unwrap();
            // This point is late, because the whole head was flushed before.
            assert!(engine.push(batch(&all, START + second - 15, -1.0)).await);
        }
    }
    engine.flush_all().await.unwrap();
    assert!(world.faults.injected() > 0);
    let ledger = engine.ledger().await.unwrap();
    assert_eq!((ledger.received, ledger.missing()), (63 * 40, 0));
    world.faults.set_chance(0.0);
    let expected: Vec<f64> =
        (1..=60).map(|second| if [5, 25, 45].contains(&second) { -1.0 } else { f64::from(second) }).collect();
    assert!(values(&engine, &all, 200).await.iter().all(|values| *values == expected));
    let ledger = world.stop(engine).await;
    assert_eq!(ledger.missing(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_applies_what_is_queued_and_a_start_has_it() {
    let world = World::new();
    let (engine, recovered) = world.start().await;
    assert_eq!(recovered.metrics, 0);
    let queued = block_shard_0(&world, &engine).await;
    let all: Vec<String> = names(&engine, "m", 1, 10);
    assert!(engine.push(batch(&all, START, 4.0)).await);
    let stop = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop(LONG).await }
    });
    world.creations.set_closed(false);
    let ledger = stop.await.unwrap();
    assert_eq!((ledger.received, ledger.missing()), (queued + 10, 0));
    assert!(!engine.push(batch(&all, START, 5.0)).await);
    assert_eq!(engine.try_push(batch(&all, START, 5.0)).unwrap_err().len(), 10);
    assert!(matches!(engine.ledger().await, Err(FetchError::Stopping)));
    assert!(matches!(engine.start().await, Err(StartError::Again)));
    engine.0.parts.journal.clone().close().unwrap();

    let (engine, recovered) = world.start().await;
    assert_eq!((recovered.metrics, recovered.states, recovered.unexplained), (11, 11, 0));
    assert!(values(&engine, &all, 10).await.iter().all(|values| values == &[4.0]));
    assert_eq!(engine.ledger().await.unwrap().missing(), 0);
    world.stop(engine).await;
}

/// Workers handle reads and acknowledgements before points, so a full queue of points delays neither reads
/// nor acknowledgements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_answered_while_senders_keep_the_queues_full() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let all: Vec<String> = [0, 1].iter().flat_map(|shard| names(&engine, "m", *shard, 500)).collect();
    assert!(engine.push(batch(&all, START, 0.0)).await);
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let (engine, all) = (engine.clone(), all.clone());
            tokio::spawn(async move {
                let mut sent = 0;
                while engine.push(batch(&all, START, 1.0)).await {
                    sent += all.len() as u64;
                }
                sent
            })
        })
        .collect();
    for _ in 0..50 {
        assert!(values(&engine, &all, 10).await.iter().all(|values| values.len() == 1));
        engine.ledger().await.unwrap();
    }
    engine.flush_all().await.unwrap();
    senders.iter().for_each(tokio::task::JoinHandle::abort);
    for sender in senders {
        let _ = sender.await;
    }
    assert_eq!(world.stop(engine).await.missing(), 0);
}
