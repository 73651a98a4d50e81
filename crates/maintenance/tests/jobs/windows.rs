//! The repair of windows, on a store in memory with several writers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_maintenance::checkpoint::Checkpoints;
use plumbago_maintenance::windows::{RepairNewWriter, RepairWindows, Selection};
use plumbago_maintenance::{Context, Job, LiveMetrics, NobodyWrites};
use plumbago_model::{Aggregation, Clock, ManualClock, MetricConfig, MetricId, Window};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{
    Capabilities, Column, MetadataStore, MetricMeta, OtherReplica, OtherWriters, PointStore, ReadRequest,
    ReplicaWindow, RowCount, Run, SharedWindows, SlotRange, SlotRow, SlotWindow, Store, StoreError,
    WindowRow, WriteBatch, WriteLimits, WriterIdentity, WriterRow,
};

/// The start of a day.
const NOW: i64 = 1_699_920_000;
const HOUR: i64 = 3600;

/// Rows of coarse stages by metric, stage and slot.
type Rows = BTreeMap<(MetricId, u8, u32), Vec<WriterRow>>;

/// A store with several writers, as one of them sees it. Raw slots are in the inner store.
#[derive(Debug, Clone)]
struct Shared {
    own: WriterIdentity,
    raw: MemoryStore,
    rows: Arc<Mutex<Rows>>,
}

impl Shared {
    fn new(replica: u8, id: u16) -> Self {
        Self { own: WriterIdentity::new(replica, id), raw: MemoryStore::default(), rows: Arc::default() }
    }

    fn of(&self, replica: u8, id: u16) -> Self {
        Self { own: WriterIdentity::new(replica, id), ..self.clone() }
    }

    fn put(&self, writer: WriterIdentity, batch: &WriteBatch) {
        let mut rows = self.rows.lock().unwrap();
        for run in &batch.runs {
            for (at, value) in batch.values(run).iter().enumerate() {
                let of_slot = rows.entry((run.id, run.stage_index, run.first_slot + at as u32)).or_default();
                of_slot.retain(|row| row.writer != writer);
                let row = WindowRow { value: *value, count: batch.counts(run)[at] };
                of_slot.push(WriterRow { writer, part: 0, row, written_us: 0, is_full: false });
            }
        }
    }

    fn rows(&self, range: &SlotRange) -> Vec<SlotRow> {
        let (id, stage) = (range.id, range.stage_index);
        let rows = self.rows.lock().unwrap();
        let found = rows.range((id, stage, range.from)..(id, stage, range.until));
        found.flat_map(|((_, _, slot), rows)| rows.iter().map(|row| (*slot, *row))).collect()
    }

    /// The value that a reader gets for a window.
    fn seen(&self, name: &str, config: &MetricConfig, stage: u8, slot: u32) -> Option<Window> {
        let range = range(name, config, stage, slot);
        let mut window = SlotWindow::default();
        self.rows(&range).iter().for_each(|(_, row)| window.add(config.aggregation, *row));
        window.window()
    }
}

impl Store for Shared {
    fn capabilities(&self) -> Capabilities {
        Capabilities { several_writers: true, ..self.raw.capabilities() }
    }
}

#[boxed_futures]
impl PointStore for Shared {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        assert!(batch.runs.iter().all(|run| run.stage_index > 0));
        self.put(self.own, batch);
        Ok(())
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let mut columns = self.raw.read(request).await?;
        for (column, range) in columns.iter_mut().zip(&request.ranges).filter(|(_, r)| r.stage_index > 0) {
            let len = column.values.len();
            let mut others = OtherWriters {
                same_replica: vec![WindowRow::NONE; len],
                other_replicas: vec![OtherReplica::default(); len],
            };
            for slot in range.from..range.until {
                let at = (slot - range.from) as usize;
                let (mut own, mut all) = (ReplicaWindow::default(), SlotWindow::default());
                for (_, row) in self.rows(&SlotRange { from: slot, until: slot + 1, ..*range }) {
                    let mine = row.writer == self.own;
                    if mine { own.add(range.aggregation, row) } else { all.add(range.aggregation, row) }
                }
                (column.values[at], column.counts[at]) = (own.row().value, own.row().count);
                others.same_replica[at] = all.replica(self.own.replica()).row();
            }
            column.others = Some(Box::new(others));
        }
        Ok(columns)
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        Ok(request.unknown())
    }

    async fn subtract_other_writers(&self, _: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    async fn delete(&self, _: &[(MetricId, Vec<plumbago_model::Stage>)]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn delete_ranges(&self, _: &[SlotRange]) -> Result<(), StoreError> {
        Ok(())
    }

    fn write_limits(&self) -> WriteLimits {
        self.raw.write_limits()
    }
}

#[boxed_futures]
impl SharedWindows for Shared {
    fn identity(&self) -> WriterIdentity {
        self.own
    }

    async fn read_rows(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<SlotRow>>, StoreError> {
        Ok(ranges.iter().map(|range| self.rows(range)).collect())
    }

    async fn write_as(&self, writer: WriterIdentity, batch: &WriteBatch) -> Result<(), StoreError> {
        self.put(writer, batch);
        Ok(())
    }
}

fn config(method: Aggregation) -> Arc<MetricConfig> {
    let retention = "60s:1d,1h:30d,6h:1y".parse().unwrap();
    Arc::new(MetricConfig { retention, aggregation: method, x_files_factor: 0.0 })
}

fn range(name: &str, config: &MetricConfig, stage: u8, slot: u32) -> SlotRange {
    SlotRange {
        id: MetricId::of(name),
        stage: config.retention.stages()[usize::from(stage)],
        stage_index: stage,
        aggregation: config.aggregation,
        from: slot,
        until: slot + 1,
    }
}

fn run(name: &str, config: &MetricConfig, stage: u8, first_slot: u32) -> Run {
    let SlotRange { id, stage, stage_index, aggregation, .. } = range(name, config, stage, first_slot);
    Run { id, stage, stage_index, aggregation, first_slot, len: 0, at: 0, whole: false }
}

async fn create(store: &Shared, name: &str, method: Aggregation) -> Arc<MetricConfig> {
    let config = config(method);
    let metric = MetricMeta { name: name.to_owned(), config: Arc::clone(&config), created_on: NOW as u32 };
    store.raw.create(&[metric]).await.unwrap();
    config
}

/// Stores raw slots, one each minute.
async fn put_raw(store: &Shared, name: &str, config: &MetricConfig, from: i64, values: &[f64]) {
    let mut batch = WriteBatch::default();
    batch.push(run(name, config, 0, (from / 60) as u32), values, None);
    PointStore::write(&store.raw, &batch).await.unwrap();
}

fn put_window(store: &Shared, name: &str, config: &MetricConfig, stage: u8, at: i64, value: f64, count: i32) {
    let resolution = i64::from(config.retention.stages()[usize::from(stage)].resolution);
    let mut batch = WriteBatch::default();
    let run = run(name, config, stage, (at / resolution) as u32);
    batch.push(run, &[value], Some(&[RowCount::new(count)]));
    store.put(store.own, &batch);
}

fn job(store: &Shared) -> RepairWindows {
    RepairWindows {
        rows: Arc::new(store.raw.clone()),
        points: Arc::new(store.clone()),
        windows: Arc::new(store.clone()),
        after: Duration::from_secs(600),
    }
}

fn context(now: i64) -> Context {
    let live: Arc<dyn LiveMetrics> = Arc::new(NobodyWrites);
    Context { settle: Duration::ZERO, ..Context::new(live, Arc::new(ManualClock::at(now))) }
}

fn seen(store: &Shared, name: &str, config: &MetricConfig, stage: u8, at: i64) -> Option<(f64, u32)> {
    let resolution = i64::from(config.retention.stages()[usize::from(stage)].resolution);
    let window = store.seen(name, config, stage, (at / resolution) as u32)?;
    Some((window.value, window.count))
}

/// A writer is lost, two writers counted the same slots, and a value was replaced. Afterwards all stages are
/// right.
#[tokio::test]
async fn windows_equal_the_raw_slots_afterwards() {
    let lost = Shared::new(0, 8);
    let partner = lost.of(0, 16);
    let ours = lost.of(0, 800);
    let start = NOW - 6 * HOUR;
    let sums = create(&ours, "m.sum", Aggregation::Sum).await;
    let most = create(&ours, "m.max", Aggregation::Max).await;
    put_raw(&ours, "m.sum", &sums, start, &[1.0; 180]).await;
    put_raw(&ours, "m.max", &most, start, &[5.0; 180]).await;
    put_window(&partner, "m.sum", &sums, 1, start + HOUR, 60.0, 60);
    put_window(&ours, "m.sum", &sums, 1, start + HOUR, 20.0, 20);
    put_window(&ours, "m.sum", &sums, 1, start + 2 * HOUR, 35.0, 35);
    put_window(&lost, "m.max", &most, 1, start, 9.0, 60);
    let all = Selection { names: Some("m.{sum,max}".to_owned()), ..Selection::default() };
    let context = Context { selection: all, ..context(NOW + 5 * HOUR) };

    let dry = job(&ours).run(&Context { dry_run: true, ..context.clone() }).await.unwrap();
    assert_eq!(dry.done["wrong"], 8, "{dry:?}");
    assert_eq!(seen(&ours, "m.sum", &sums, 1, start), None);
    let report = job(&ours).run(&context).await.unwrap();
    assert_eq!(report.done, [("corrected".to_owned(), 8)].into(), "{report:?}");
    for at in [start, start + HOUR, start + 2 * HOUR] {
        assert_eq!(seen(&ours, "m.sum", &sums, 1, at), Some((60.0, 60)));
        assert_eq!(seen(&ours, "m.max", &most, 1, at), Some((5.0, 60)));
    }
    assert_eq!(seen(&ours, "m.sum", &sums, 2, start), Some((180.0, 180)));
    assert_eq!(seen(&ours, "m.max", &most, 2, start), Some((5.0, 180)));
    let again = job(&partner).run(&context).await.unwrap();
    assert!(again.done.is_empty() && again.windows == report.windows, "{again:?}");
}

/// A window that is still open in this process, and one that ended only recently, are not changed.
#[tokio::test]
async fn open_windows_are_left_alone() {
    #[derive(Debug)]
    struct Open(i64);

    #[boxed_futures]
    impl LiveMetrics for Open {
        async fn are_written(&self, names: &[&str], _: i64) -> Result<Vec<bool>, StoreError> {
            Ok(vec![true; names.len()])
        }

        fn is_known_above(&self, _: &str) -> bool {
            true
        }

        async fn forget(&self, names: &[&str], _: i64) -> Result<Vec<bool>, StoreError> {
            Ok(vec![false; names.len()])
        }

        async fn closed_until(&self, names: &[&str]) -> Result<Vec<i64>, StoreError> {
            Ok(vec![self.0; names.len()])
        }
    }

    let store = Shared::new(0, 8);
    let config = create(&store, "m", Aggregation::Average).await;
    put_raw(&store, "m", &config, NOW - 3 * HOUR, &[1.0; 180]).await;
    let open = Context { live: Arc::new(Open(NOW - HOUR - 60)), ..context(NOW + 2 * HOUR) };
    let report = job(&store).run(&open).await.unwrap();
    assert_eq!((report.done["corrected"], report.kept["open"]), (1, 3), "{report:?}");
    assert_eq!(seen(&store, "m", &config, 1, NOW - 3 * HOUR), Some((60.0, 60)));
    assert_eq!(seen(&store, "m", &config, 1, NOW - 2 * HOUR), None);
}

/// Each window that was open when the id was drawn is corrected once, when it closes, even after restarts.
#[tokio::test]
async fn a_new_writer_completes_the_windows_it_found_open() {
    let lost = Shared::new(1, 8);
    let ours = lost.of(1, 800);
    let config = create(&ours, "m", Aggregation::Sum).await;
    put_raw(&ours, "m", &config, NOW, &[1.0; 360]).await;
    put_window(&lost, "m", &config, 1, NOW, 60.0, 60);
    // The new writer found this window open, and counted its second half.
    put_window(&ours, "m", &config, 1, NOW + HOUR, 30.0, 30);
    put_window(&ours, "m", &config, 2, NOW, 270.0, 270);
    for hour in 2..6 {
        put_window(&ours, "m", &config, 1, NOW + hour * HOUR, 60.0, 60);
    }
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(NOW + 3 * HOUR / 2));
    let context = Context {
        checkpoints: Checkpoints::new(dir.path().to_owned()),
        ..Context { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..context(NOW) }
    };
    let job = || RepairNewWriter { repair: job(&ours), file: dir.path().join("new-writer.json") };
    assert!(job().is_due(clock.now()));
    assert!(job().run(&context).await.unwrap().done.is_empty());
    assert!(!job().is_due(clock.now()));
    // The window before it is complete.
    clock.set(NOW + 2 * HOUR + 600);
    assert!(job().is_due(clock.now()));
    let report = job().run(&context).await.unwrap();
    assert!(report.done.is_empty() && report.windows == 1, "{report:?}");
    clock.set(NOW + 3 * HOUR);
    assert!(!job().is_due(clock.now()));
    clock.set(NOW + 3 * HOUR + 600);
    assert!(job().is_due(clock.now()));
    assert_eq!(job().run(&context).await.unwrap().done["corrected"], 1);
    assert_eq!(seen(&ours, "m", &config, 1, NOW + HOUR), Some((60.0, 60)));
    assert_eq!(seen(&ours, "m", &config, 2, NOW), Some((270.0, 270)));
    clock.set(NOW + 8 * HOUR);
    assert_eq!(job().run(&context).await.unwrap().done["corrected"], 1);
    assert_eq!(seen(&ours, "m", &config, 2, NOW), Some((360.0, 360)));
    clock.set(NOW + 48 * HOUR);
    assert!(!job().is_due(clock.now()));
    // Another writer id.
    let RepairNewWriter { repair, file } = job();
    let repair = RepairWindows { windows: Arc::new(lost.of(1, 160)), ..repair };
    assert!(RepairNewWriter { repair, file }.is_due(clock.now()));
}
