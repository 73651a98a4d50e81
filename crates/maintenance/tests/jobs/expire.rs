//! The job that deletes metrics without points.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_maintenance::expire::Expire;
use plumbago_maintenance::{Context, Job, Stores};
use plumbago_model::{MetricId, Stage};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{
    Capabilities, Column, FlushBatch, FlushStore, OtherReplica, OtherWriters, PointStore, ReadRequest,
    RowCount, RowStore, Run, SlotRange, StateRow, Store, StoreError, WindowRow, WriteBatch, WriteLimits,
};

use super::{DAY, Live, NOW, config, context, create, exists, stores};

async fn put_points(store: &MemoryStore, name: &str, at: i64) {
    let config = config();
    let mut batch = WriteBatch::default();
    for (index, stage) in config.retention.stages().iter().enumerate() {
        let run = Run {
            id: MetricId::of(name),
            stage: *stage,
            stage_index: index as u8,
            aggregation: config.aggregation,
            first_slot: stage.slot(at as u32),
            len: 0,
            at: 0,
            whole: false,
        };
        batch.push(run, &[1.5], Some(&[RowCount::ONE]));
    }
    store.write(&batch).await.unwrap();
}

async fn has_point(store: &MemoryStore, name: &str, at: i64) -> bool {
    let config = config();
    let stage = config.retention.stages()[1];
    let slot = stage.slot(at as u32);
    let range = SlotRange {
        id: MetricId::of(name),
        stage,
        stage_index: 1,
        aggregation: config.aggregation,
        from: slot,
        until: slot + 1,
    };
    let columns = store.read(&ReadRequest { ranges: vec![range], ..Default::default() }).await.unwrap();
    !columns[0].values[0].is_nan()
}

#[tokio::test]
async fn metrics_that_nobody_writes_go_with_their_points() {
    let store = MemoryStore::default();
    let names = ["dead", "older", "silent", "written", "late", "touched", "fresh"].map(|n| format!("e.{n}"));
    create(&store, &names, NOW - 100 * DAY).await;
    create(&store, &["e.new".to_owned()], NOW - DAY).await;
    for (name, days) in
        [("e.dead", 40), ("e.older", 90), ("e.written", 40), ("e.late", 40), ("e.touched", 40)]
    {
        put_points(&store, name, NOW - days * DAY).await;
    }
    // An hour ago, another process wrote the metric, and this process does not know that.
    put_points(&store, "e.fresh", NOW - 3600).await;
    store.touch("e.touched", (NOW - 10 * DAY) as u32);
    let state = |name: &str| StateRow { id: MetricId::of(name), bytes: vec![1] };
    let states = names.iter().map(|name| state(name)).collect();
    store.commit(&FlushBatch { states, ..FlushBatch::default() }).unwrap();

    let live = Arc::new(Live::default());
    live.written.lock().unwrap().insert("e.written".to_owned());
    live.late.lock().unwrap().insert("e.late".to_owned());
    let job = Expire { stores: stores(&store), after: Duration::from_secs(30 * DAY as u64) };
    let dry = job.run(&Context { dry_run: true, live: live.clone(), ..context() }).await.unwrap();
    assert_eq!(dry.done["expired"], 4);
    assert!(exists(&store, "e.dead").await && live.forgotten.lock().unwrap().is_empty());

    let report = job.run(&Context { live: live.clone(), ..context() }).await.unwrap();
    assert_eq!((report.scanned, report.done["expired"]), (8, 3));
    assert_eq!((report.kept["has_points"], report.kept["written"]), (1, 1));
    for name in ["e.dead", "e.older", "e.silent"] {
        assert!(!exists(&store, name).await, "{name}");
    }
    assert!(!has_point(&store, "e.dead", NOW - 40 * DAY).await);
    for name in ["e.written", "e.late", "e.touched", "e.fresh", "e.new"] {
        assert!(exists(&store, name).await, "{name}");
    }
    assert!(has_point(&store, "e.late", NOW - 40 * DAY).await);
    let mut states = 0;
    store.scan_states(&mut |_, _| states += 1).unwrap();
    assert_eq!(states, 4);
    let forgotten: BTreeSet<String> = live.forgotten.lock().unwrap().iter().cloned().collect();
    assert_eq!(forgotten, ["e.dead", "e.older", "e.silent"].map(str::to_owned).into());
}

/// A store in which other writers have written all coarse windows of some points.
#[derive(Debug)]
struct OfOthers(MemoryStore);

impl Store for OfOthers {
    fn capabilities(&self) -> Capabilities {
        Capabilities { several_writers: true, ..self.0.capabilities() }
    }
}

#[boxed_futures]
impl PointStore for OfOthers {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.0.write(batch).await
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let columns = self.0.read(request).await?.into_iter().map(|column| {
            if column.counts.is_empty() {
                return column;
            }
            let windows = column.values.iter().zip(&column.counts);
            let row = |(value, count): (&f64, &RowCount)| WindowRow { value: *value, count: *count };
            let same_replica = windows.map(row).collect();
            let other_replicas = vec![OtherReplica::default(); column.values.len()];
            let others = Some(Box::new(OtherWriters { same_replica, other_replicas }));
            Column { others, ..Column::unknown(column.values.len(), true) }
        });
        Ok(columns.collect())
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.0.read_pending(request).await
    }

    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        self.0.subtract_other_writers(batch).await
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        PointStore::delete(&self.0, metrics).await
    }

    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError> {
        self.0.delete_ranges(ranges).await
    }

    fn write_limits(&self) -> WriteLimits {
        self.0.write_limits()
    }
}

#[tokio::test]
async fn windows_that_only_others_wrote_are_points() {
    let store = MemoryStore::default();
    create(&store, &["e.dead".to_owned(), "e.theirs".to_owned()], NOW - 100 * DAY).await;
    // Older than the raw points that are read.
    put_points(&store, "e.theirs", NOW - 10 * DAY).await;
    let stores = Stores { points: Arc::new(OfOthers(store.clone())), ..stores(&store) };
    let job = Expire { stores, after: Duration::from_secs(30 * DAY as u64) };
    let report = job.run(&context()).await.unwrap();
    assert_eq!((report.done["expired"], report.kept["has_points"]), (1, 1));
    assert!(exists(&store, "e.theirs").await && !exists(&store, "e.dead").await);
}

/// A point arrives between the unloading and the deletion. Afterwards the metric exists.
#[tokio::test]
async fn a_metric_that_is_born_again_meanwhile_stays() {
    let store = MemoryStore::default();
    create(&store, &["e.dead".to_owned(), "e.reborn".to_owned()], NOW - 100 * DAY).await;
    let live = Arc::new(Live::default());
    live.reborn.lock().unwrap().insert("e.reborn".to_owned());
    let job = Expire { stores: stores(&store), after: Duration::from_secs(30 * DAY as u64) };
    let report = job.run(&Context { live, ..context() }).await.unwrap();
    assert_eq!((report.done["expired"], report.kept["came_to_life"]), (1, 1));
    assert!(!exists(&store, "e.dead").await);
    let reborn = store.look_up_rows(&["e.reborn"]).await.unwrap().remove(0).unwrap();
    assert_eq!((i64::from(reborn.created_on), reborn.problem), (NOW, None));
}
