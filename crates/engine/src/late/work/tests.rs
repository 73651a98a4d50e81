//! Late points in pieces give the same rows as with a single read, with few slots in each call and without
//! repeated calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, MetricConfig, MetricId, Stage};
use plumbago_store::layer::{Faults, Faulty};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{Capabilities, PointStore, SlotRange, Store, StoreError, WriteLimits};
use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::*;
use crate::late::LateWorks;
use crate::late::rounds::Budget;
use crate::shard::downsample::MetricLayout;
use crate::shard::jobs::LateJob;

/// A store that records how many slots of each metric every call reads.
#[derive(Debug, Default)]
struct Noting {
    inner: MemoryStore,
    calls: Mutex<Vec<BTreeMap<MetricId, u32>>>,
}

impl Store for Noting {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

#[boxed_futures]
impl PointStore for Noting {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.inner.write(batch).await
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let mut call = BTreeMap::new();
        for range in &request.ranges {
            *call.entry(range.id).or_default() += range.until - range.from;
        }
        self.calls.lock().unwrap().push(call);
        self.inner.read(request).await
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.inner.read_pending(request).await
    }

    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        self.inner.subtract_other_writers(batch).await
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        self.inner.delete(metrics).await
    }

    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError> {
        self.inner.delete_ranges(ranges).await
    }

    fn write_limits(&self) -> WriteLimits {
        self.inner.write_limits()
    }
}

fn layout(retention: &str, method: &str) -> Arc<MetricLayout> {
    Arc::new(MetricLayout::new(Arc::new(MetricConfig {
        retention: retention.parse().unwrap(),
        aggregation: method.parse().unwrap(),
        x_files_factor: 0.0,
    })))
}

fn late(layout: &Arc<MetricLayout>, at: u32, base: u32, now: i64, points: &[(u8, u32, f64)]) -> LateMetric {
    let has_aged = points.iter().any(|(stage, ..)| *stage > 0);
    let points = points.iter().map(|(stage, slot, value)| LatePoint {
        sequence: 1,
        value: *value,
        slot: *slot,
        stage: *stage,
    });
    LateMetric {
        at,
        id: MetricId::of(&format!("m.{at}")),
        layout: Arc::clone(layout),
        base,
        now,
        segment: 1,
        aged_until: if has_aged { base } else { 0 },
        points: points.collect(),
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn works(metrics: Vec<LateMetric>) -> LateWorks {
    let mut works = LateWorks::default();
    works.push(LateJob { metrics });
    works
}

fn put(store: &MemoryStore, layout: &MetricLayout, at: u32, stage: usize, first: u32, slots: &[(f64, i32)]) {
    let (values, counts): (Vec<f64>, Vec<RowCount>) =
        slots.iter().map(|(value, count)| (*value, RowCount::new(*count))).unzip();
    let mut batch = WriteBatch::default();
    let run = layout.run(MetricId::of(&format!("m.{at}")), stage, first);
    batch.push(run, &values, (stage > 0).then_some(&counts));
    runtime().block_on(store.write(&batch)).unwrap();
}

/// A start long after a crash may replay a late point whose raw slots have expired since the crash.
#[test]
fn a_window_outlives_the_slots_it_was_folded_from() {
    let layout = layout("1s:100s,10s:1000s", "average");
    let store = MemoryStore::default();
    put(&store, &layout, 0, 1, 50, &[(10.0, 4)]);
    let metric = late(&layout, 0, 900, 900, &[(0, 505, 2.0), (0, 515, 7.0)]);
    works(vec![metric]).step(&store, &store, runtime().handle(), &Budget::USUAL).unwrap();
    let request =
        ReadRequest { ranges: vec![layout.range(MetricId::of("m.0"), 1, 50, 52)], ..Default::default() };
    let column = runtime().block_on(store.read(&request)).unwrap().remove(0);
    assert_eq!(column.values, [12.0, 7.0]);
    assert_eq!(column.counts, [RowCount::new(5), RowCount::new(1)]);
}

/// A day at a resolution of one second is read in pieces, and a metric with short windows is stored by the
/// first call.
#[test]
fn a_call_reads_few_slots_of_a_metric() {
    const DAY: u32 = 86_400;
    for method in ["sum", "average", "median"] {
        let long = layout("1s:4d,1m:30d,1d:10y", method);
        let short = layout("1m:4d,1h:30d", method);
        let (base, now) = (20_000 * DAY, i64::from(20_000 * DAY));
        let day: Vec<(f64, i32)> = (0..DAY).map(|slot| (f64::from(slot % 1009) * 0.1, 1)).collect();
        let store = Noting::default();
        put(&store.inner, &long, 0, 0, base - DAY, &day);
        let points = [(0, base - DAY + 70, 5.5), (0, base - 3, -1.5)];
        let mut works = works(vec![
            late(&long, 0, base, now, &points),
            late(&short, 1, base / 60, now, &[(0, base / 60 - 90, 2.0)]),
        ]);
        let first = works.step(&store.inner, &store, runtime().handle(), &Budget::USUAL).unwrap();
        assert_eq!(first.iter().map(|done| done.at).collect::<Vec<_>>(), [1]);
        let mut steps = 1;
        while !works.is_empty() {
            works.step(&store.inner, &store, runtime().handle(), &Budget::USUAL).unwrap();
            steps += 1;
        }
        let calls = store.calls.lock().unwrap();
        assert_eq!((steps, calls.len()), (22, 22));
        assert!(calls.iter().flat_map(|call| call.values()).all(|slots| *slots <= 4000), "{calls:?}");
        let total: u32 = calls.iter().filter_map(|call| call.get(&MetricId::of("m.0"))).sum();
        assert!((DAY..DAY + 400).contains(&total), "{total}");
        let range = long.range(MetricId::of("m.0"), 2, 19_999, 20_000);
        let request = ReadRequest { ranges: vec![range], ..Default::default() };
        let column = runtime().block_on(store.inner.read(&request)).unwrap().remove(0);
        let mut values: Vec<f64> = day.iter().map(|(value, _)| *value).collect();
        (values[70], values[DAY as usize - 3]) = (5.5, -1.5);
        let expected = long.config.aggregation.fold_all(values.into_iter());
        assert_eq!((column.values[0], column.counts[0]), (expected.value, expected.count.into()), "{method}");
    }
}

/// If the store fails, only the current piece is read again, and nothing is lost or counted twice.
#[test]
fn after_a_failure_the_reads_go_on_at_the_same_piece() {
    let layout = layout("1s:2000s,1000s:20000s", "sum");
    let (store, faults) = (MemoryStore::default(), Faults::new());
    put(&store, &layout, 0, 0, 8000, &vec![(1.0, 1); 1000]);
    let faulty = Faulty::new(store.clone(), faults.clone());
    let budget = Budget { metric_slots: 100, ..Budget::USUAL };
    let mut works = works(vec![late(&layout, 0, 9500, 9500, &[(0, 8500, 5.0)])]);
    let (mut succeeded, mut done) = (0, Vec::new());
    while !works.is_empty() {
        faults.fail_next(1);
        assert!(works.step(&faulty, &faulty, runtime().handle(), &budget).is_err());
        match works.step(&faulty, &faulty, runtime().handle(), &budget) {
            Ok(stored) => done.extend(stored),
            Err(error) => panic!("{error}"),
        }
        succeeded += 1;
    }
    // The slot of the point, then the slots of its window.
    assert_eq!(succeeded, 11);
    assert_eq!((done.len(), done[0].points, done[0].stored), (1, 1, 0));
    let range = layout.range(MetricId::of("m.0"), 1, 8, 9);
    let request = ReadRequest { ranges: vec![range], ..Default::default() };
    let column = runtime().block_on(store.read(&request)).unwrap().remove(0);
    assert_eq!((column.values[0], column.counts[0]), (1004.0, RowCount::new(1000)));
}

/// Percentiles need all slots of a window in memory, so only a few windows are read at a time.
#[test]
fn what_percentiles_keep_is_bounded() {
    let layout = layout("1s:2000s,1000s:20000s", "p90");
    let store = Noting::default();
    let metrics = (0..10).map(|at| late(&layout, at, 9500, 9500, &[(0, 8500 + at, 5.0)])).collect();
    let budget = Budget { metric_slots: 100, kept_bytes: 3 * 8000, ..Budget::USUAL };
    let mut works = works(metrics);
    while !works.is_empty() {
        works.step(&store.inner, &store, runtime().handle(), &budget).unwrap();
    }
    let calls = store.calls.lock().unwrap();
    assert!(calls.iter().all(|call| call.len() <= 3), "{calls:?}");
    assert_eq!(calls.iter().flat_map(|call| call.keys()).collect::<BTreeSet<_>>().len(), 10);
    // A metric that needs more than the limit is read alone.
    let mut works = LateWorks::default();
    let metrics = (0..3).map(|at| late(&layout, at, 9500, 9500, &[(0, 8500, 5.0)])).collect();
    works.push(LateJob { metrics });
    let before = calls.len();
    drop(calls);
    while !works.is_empty() {
        let budget = Budget { kept_bytes: 10, ..budget };
        works.step(&store.inner, &store, runtime().handle(), &budget).unwrap();
    }
    assert!(store.calls.lock().unwrap()[before..].iter().all(|call| call.len() == 1));
}

proptest! {
    /// Pieces of any size give the same rows and the same changes as a read of everything at once.
    #[test]
    fn pieces_give_what_one_read_gives(
        raw in prop::collection::vec(prop::option::of(-50i32..50), 400),
        coarse in prop::collection::vec(prop::option::of((-50i32..50, 1i32..9)), 80),
        points in prop::collection::vec((0u8..3, 0u32..400, -50i32..50), 1..40),
        // The raw stage covers the whole window, a part of it, or nothing.
        age in prop::sample::select(vec![0i64, 350, 900]),
        metric_slots in 1u32..40,
    ) {
        for method in ["average", "sum", "min", "last", "count", "absmax", "p90"] {
            let layout = layout("1s:500s,5s:1000s,40s:4000s", method);
            // A window of stage 2 begins at 10,000.
            let (first, base) = (10_000, 10_385);
            let scaled = |value: i32| f64::from(value) * 0.1;
            let values: Vec<(f64, i32)> =
                raw.iter().map(|value| (value.map_or(f64::NAN, scaled), 1)).collect();
            let windows: Vec<(f64, i32)> =
                coarse.iter().map(|window| window.map_or((f64::NAN, 0), |(value, count)| (scaled(value), count))).collect();
            let points: Vec<(u8, u32, f64)> = points.iter().map(|(stage, slot, value)| {
                let slot = (first + slot).min(base - 1);
                let per = [1, 5, 40][usize::from(*stage)];
                (*stage, slot / per, scaled(*value))
            }).collect();
            let run = |budget: Budget| {
                let store = MemoryStore::default();
                put(&store, &layout, 0, 0, first, &values[..385]);
                put(&store, &layout, 0, 1, first / 5, &windows);
                let mut works = works(vec![late(&layout, 0, base, i64::from(base) + age, &points)]);
                let mut done = Vec::new();
                while !works.is_empty() {
                    done.extend(works.step(&store, &store, runtime().handle(), &budget).unwrap());
                }
                let ranges = (0..3).map(|stage| {
                    let per = [1, 5, 40][stage];
                    layout.range(MetricId::of("m.0"), stage, first / per, (first + 400) / per)
                });
                let request = ReadRequest { ranges: ranges.collect(), ..Default::default() };
                let columns = runtime().block_on(store.read(&request)).unwrap();
                format!("{columns:?} {done:?}")
            };
            prop_assert_eq!(run(Budget { metric_slots, ..Budget::USUAL }), run(Budget::USUAL), "{}", method);
        }
    }
}

#[test]
fn more_rows_than_a_batch_takes_go_to_the_next_one() {
    let layout = layout("1s:1d,1m:30d", "sum");
    let points: Vec<(u8, u32, f64)> = (0..9000).map(|i| (0, 20_000 + i, 1.0)).collect();
    let work = Work::new(late(&layout, 0, 40_000, 40_000, &points));
    let mut batches = Vec::new();
    work.push_rows(&mut batches);
    let rows: Vec<usize> = batches.iter().map(|batch| batch.values.len()).collect();
    assert_eq!(rows, [4000, 4000, 1000]);
    assert!(matches!(layout.config.aggregation, Aggregation::Sum));
}
