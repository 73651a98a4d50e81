//! Recovery from damaged state rows and incomplete journals.

use std::borrow::Cow;
use std::sync::Arc;

use plumbago_journal::JournalWriter;
use plumbago_model::{Clock, ManualClock, MetricConfig, MetricId, Stage};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{FlushBatch, MetricMeta, PointStore, ReadRequest, Run, StateRow, WriteBatch};
use plumbago_telemetry::Registry;

use super::*;
use crate::late::rounds::Budget;
use crate::shard::Limits;
use crate::shard::jobs::{Done, Job};
use crate::shard::read::HeadQuery;
use crate::shard::state_row::State;
use crate::stats::{Reject, Stats};
use crate::worker::flusher::do_job;

const START: u32 = 1_700_000_000;

/// A store and a journal left by an earlier run.
struct World {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    store: MemoryStore,
    runtime: tokio::runtime::Runtime,
}

impl World {
    /// Creates the metrics `names` in the metadata store, and a journal with the records that `write`
    /// appends.
    fn new(names: &[&str], write: impl FnOnce(&mut JournalWriter)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let clock = Arc::new(ManualClock::at(i64::from(START) + 20));
        let dir = tempfile::tempdir().unwrap();
        let world = Self { dir, clock, store: MemoryStore::new(10), runtime };
        let meta = |name: &&str| MetricMeta { name: (*name).to_owned(), config: config(), created_on: START };
        let metrics: Vec<MetricMeta> = names.iter().map(meta).collect();
        world.runtime.block_on(MetadataStore::create(&world.store, &metrics)).unwrap();
        let journal = world.journal();
        let mut writer = journal.writer();
        write(&mut writer);
        writer.write_out().unwrap();
        journal.close().unwrap();
        world
    }

    fn journal(&self) -> Journal {
        let config = plumbago_journal::Config { min_free_bytes: 0, ..Default::default() };
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&self.clock);
        Journal::open(&self.dir.path().join("journal"), config, clock, &Registry::new()).unwrap()
    }

    fn put_state(&self, name: &str, bytes: Vec<u8>) {
        let states = vec![StateRow { id: MetricId::of(name), bytes }];
        self.store.commit(&FlushBatch { rows: WriteBatch::default(), states }).unwrap();
    }

    fn recover(&self) -> (Shard, Start, Router) {
        self.recover_into(&Arc::new(Index::new(&Registry::new())))
    }

    fn recover_into(&self, index: &Arc<Index>) -> (Shard, Start, Router) {
        let limits = Limits {
            at_intervals: false,
            emit_open: false,
            future_max: 3600,
            checkpoint_segments: 1,
            idle_after: 60,
            late_points: 1000,
        };
        let mut shards = [Shard::new(self.store.layout(), limits, Stats::new(&Registry::new()))];
        let metadata: Arc<dyn MetadataStore> = Arc::new(self.store.clone());
        let config_for: ConfigFor = Arc::new(|_| config());
        let router = Router::new(7, 1);
        let journal = self.journal();
        let sources = Sources {
            metadata: &metadata,
            flush: &self.store,
            journal: &journal,
            index,
            router,
            config_for: &config_for,
            quotas: &Quotas::default(),
            now: self.clock.now(),
        };
        let start = self.runtime.block_on(recover(&sources, &mut shards)).unwrap();
        let [shard] = shards;
        assert_eq!(shard.ledger.missing(), 0);
        (shard, start, router)
    }

    /// The known values of one stage of a metric; none if the metric is not in the shard.
    fn read(&self, shard: &mut Shard, router: Router, name: &str, seconds: i64) -> Vec<f64> {
        let hash = router.hash(name);
        let now = self.clock.now();
        let query = HeadQuery { hashes: vec![hash], from: now - seconds, until: now, now, whole_raw: false };
        let Some(answer) = shard.read(&query, &hash) else { return Vec::new() };
        let ranges = vec![crate::read::stage_range(&answer)];
        let request = ReadRequest { ranges, ..Default::default() };
        let mut column = self.runtime.block_on(self.store.read(&request)).unwrap().remove(0);
        let values = crate::read::merge(&answer, &mut column, None);
        values.into_iter().filter(|value| !value.is_nan()).collect()
    }
}

fn config() -> Arc<MetricConfig> {
    Arc::new(MetricConfig {
        retention: "1s:1000s,10s:10000s".parse().unwrap(),
        aggregation: Default::default(),
        x_files_factor: 0.0,
    })
}

fn state(number: u32, sequence: u64) -> Vec<u8> {
    State {
        number,
        sequence,
        base: START,
        newest: START,
        resolution: 1,
        open: vec![Default::default()],
        resolutions: Vec::new(),
        future: Vec::new(),
        held: 0,
        chain: Cow::Borrowed(&[]),
        octet: [f64::NAN; 8],
    }
    .encode()
}

/// The slots are recovered from the journal, and the open window is folded again from the store and the
/// journal.
#[test]
fn points_of_a_metric_with_a_damaged_state_row_are_recovered() {
    let world = World::new(&["m"], |writer| {
        writer.point(5, START + 5, 4.0);
        writer.point(5, START + 6, 7.0);
    });
    let mut stored = WriteBatch::default();
    let run = Run {
        id: MetricId::of("m"),
        stage: Stage { resolution: 1, points: 1000 },
        stage_index: 0,
        aggregation: Default::default(),
        first_slot: START,
        len: 0,
        at: 0,
        whole: false,
    };
    stored.push(run, &[1.0; 5], None);
    world.runtime.block_on(world.store.write(&stored)).unwrap();
    world.put_state("m", state(5, 1)[..20].to_vec());

    let (mut shard, start, router) = world.recover();
    let report = start.report;
    assert_eq!((report.damaged_states, report.states, report.replayed, report.unexplained), (1, 0, 2, 0));
    assert_eq!(shard.ledger.recovered, 2);
    let job = Job::Late(shard.take_late().unwrap());
    let (store, runtime) = (&world.store, world.runtime.handle());
    let done = do_job(store, store, runtime, job, &Budget::USUAL).unwrap();
    let Done::Late(done) = done else { panic!("{done:?}") };
    shard.late_done(done);
    assert_eq!(shard.ledger.missing(), 0);
    assert_eq!(world.read(&mut shard, router, "m", 60), [1.0, 1.0, 1.0, 1.0, 1.0, 4.0, 7.0]);
    assert_eq!(world.read(&mut shard, router, "m", 5000), [16.0 / 7.0]);
}

/// The number in a damaged row may be wrong. Records with this number go to the metric whose row is intact.
#[test]
fn a_damaged_state_row_takes_no_records_of_another_metric() {
    let world = World::new(&["a", "b"], |writer| {
        writer.point(5, START + 1, 1.0);
    });
    world.put_state("a", state(5, 0));
    world.put_state("b", state(5, 0)[..10].to_vec());
    let (mut shard, start, router) = world.recover();
    assert_eq!((start.report.damaged_states, start.report.states, start.report.replayed), (1, 1, 1));
    assert_eq!(world.read(&mut shard, router, "a", 60), [1.0]);
    assert!(world.read(&mut shard, router, "b", 60).is_empty());
}

#[test]
fn points_that_nothing_explains_are_rejected_with_a_reason() {
    let world = World::new(&[], |writer| {
        writer.point(9, START, 1.0);
        writer.point(9, START + 1, 1.0);
    });
    let (shard, mut start, _) = world.recover();
    assert_eq!(start.report.unexplained, 2);
    assert_eq!(shard.ledger.recovered, 2);
    assert_eq!(shard.ledger.rejected[Reject::Unexplained as usize], 2);
    let mut next = || start.numbers.take_lowest().unwrap();
    assert_eq!((1..=9).map(|_| next()).last(), Some(10), "no other metric gets the number");
}

#[test]
fn points_of_a_deleted_metric_are_explained_by_its_removal() {
    let world = World::new(&[], |writer| {
        writer.point(9, START, 1.0);
        writer.removal(9);
    });
    let (shard, start, _) = world.recover();
    assert_eq!((start.report.unexplained, start.report.covered, shard.ledger.recovered), (0, 1, 0));
}

/// A metric whose creation did not reach the metadata store before a kill.
#[test]
fn metrics_that_only_the_journal_has_are_found_from_the_start_on() {
    let world = World::new(&["known"], |writer| {
        writer.creation(5, "new.metric");
        writer.point(5, START, 1.0);
    });
    let index = Arc::new(Index::new(&Registry::new()));
    let (mut shard, start, router) = world.recover_into(&index);
    assert_eq!(start.creations[0].len(), 1);
    assert!(index.contains("known") && index.contains("new.metric"));
    assert_eq!(world.read(&mut shard, router, "new.metric", 60), [1.0]);
}

/// A metric that was deleted with points in memory. The kill came before or after the metadata store deleted
/// the metric.
#[test]
fn points_from_before_a_removal_do_not_come_back() {
    for known in [&["m"][..], &[]] {
        let world = World::new(known, |writer| {
            writer.creation(5, "m");
            writer.point(5, START, 1.0);
            writer.point(5, START + 1, 1.0);
            writer.removal(5);
        });
        world.put_state("m", state(5, 0));
        let (mut shard, start, router) = world.recover();
        assert!(start.creations[0].is_empty());
        assert!(world.read(&mut shard, router, "m", 60).is_empty());
        assert_eq!((shard.ledger.held, shard.ledger.missing()), (0, 0));
    }
}

/// A metric of the same name that was created after the deletion keeps its points.
#[test]
fn points_from_after_a_removal_stay() {
    let world = World::new(&[], |writer| {
        writer.creation(5, "m");
        writer.point(5, START, 1.0);
        writer.removal(5);
        writer.creation(6, "m");
        writer.point(6, START + 1, 2.0);
    });
    let (mut shard, start, router) = world.recover();
    assert_eq!(start.creations[0].len(), 1);
    assert_eq!(world.read(&mut shard, router, "m", 60), [2.0]);
    assert_eq!((shard.ledger.held, shard.ledger.missing()), (1, 0));
    assert_eq!(shard.ledger.rejected[Reject::Deleted as usize], 1);
}
