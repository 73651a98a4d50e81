//! Remote stores for tests. They keep the timestamps of writes, as Cassandra does, and one can inject
//! failures.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, Clock, MetricId, Stage};
use plumbago_spool::{SenderConfig, SpooledStore};
use plumbago_spool::{Spool, SpoolConfig};
use plumbago_store::layer::{Faults, Faulty};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{
    BlockLayout, Column, ErrorKind, PointStore, ReadRequest, RemotePoints, RowCount, Run, SlotRange,
    StoreError, WriteBatch, WriteLimits, WriteRefusal,
};
use plumbago_telemetry::Registry;

pub(crate) const RAW: Stage = Stage { resolution: 60, points: 10_080 };
pub(crate) const COARSE: Stage = Stage { resolution: 900, points: 35_040 };

/// A cell: timestamp, value, count. With equal timestamps the larger value wins, as in Cassandra, so that
/// tests notice ties.
type Cell = (i64, f64, RowCount);

/// A stage of a metric. The flag is true for a coarse stage.
type Series = (MetricId, Stage, bool);

/// Whether the range has this slot of the series.
fn covers(range: &SlotRange, series: Series, slot: u32) -> bool {
    (range.id, range.stage, range.stage_index > 0) == series && (range.from..range.until).contains(&slot)
}

/// All cells, with the bits of their values, for comparisons.
pub(crate) type Cells = BTreeMap<(MetricId, Stage, bool, u32), (i64, u64, RowCount)>;

/// A remote store that keeps cells by metric, stage and slot, and can inject failures.
#[derive(Debug)]
pub(crate) struct TimedRemote {
    cells: Mutex<HashMap<Series, BTreeMap<u32, Cell>>>,
    /// Deletions: the timestamp up to which cells of a stage are deleted. As with Cassandra, there is none where a
    /// deletion has found nothing and expected nothing.
    graves: Mutex<HashMap<(MetricId, Stage), i64>>,
    /// Deletions of slots, each with its timestamp.
    buried: Mutex<Vec<(SlotRange, i64)>>,
    pub(crate) faults: Faults,
    gate: Faulty<MemoryStore>,
    /// Stages whose table is missing, so that writes to them fail.
    pub(crate) missing: Mutex<HashSet<Stage>>,
    /// Metrics whose partition has no answering replica, so that writes to them fail.
    pub(crate) dead: Mutex<HashSet<MetricId>>,
    /// Whether errors do not name the runs that failed.
    pub(crate) is_silent: AtomicBool,
    /// Whether writes to dead metrics alone are refused as known to be down.
    pub(crate) is_known_down: AtomicBool,
    /// Whether the store cannot tell when slots were written.
    pub(crate) hides_times: AtomicBool,
    pub(crate) rows: AtomicU64,
    /// Number of runs written. Each takes one request or more.
    pub(crate) runs: AtomicU64,
    pub(crate) calls: AtomicU64,
    in_flight: AtomicUsize,
    pub(crate) in_flight_max: AtomicUsize,
    pub(crate) delay: Mutex<Duration>,
    pub(crate) limits: WriteLimits,
}

impl TimedRemote {
    pub(crate) fn new(faults: Faults) -> Arc<Self> {
        Arc::new(Self {
            cells: Mutex::default(),
            graves: Mutex::default(),
            buried: Mutex::default(),
            gate: Faulty::new(MemoryStore::default(), faults.clone()),
            faults,
            missing: Mutex::default(),
            dead: Mutex::default(),
            is_silent: AtomicBool::new(false),
            is_known_down: AtomicBool::new(false),
            hides_times: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            in_flight_max: AtomicUsize::new(0),
            delay: Mutex::default(),
            limits: WriteLimits { concurrency: 4, slots_per_call: 2000 },
        })
    }

    /// All cells, for comparisons.
    pub(crate) fn cells(&self) -> Cells {
        let cells = self.cells.lock().unwrap();
        let all = cells.iter().flat_map(|((id, stage, coarse), slots)| {
            let cell = |(slot, (at, value, count)): (&u32, &Cell)| {
                ((*id, *stage, *coarse, *slot), (*at, value.to_bits(), *count))
            };
            slots.iter().map(cell)
        });
        all.collect()
    }

    /// Makes the store lose all cells, as a crashed server would.
    pub(crate) fn lose_everything(&self) {
        self.cells.lock().unwrap().clear();
    }

    fn apply(&self, batch: &WriteBatch, timestamp_us: i64) {
        let mut cells = self.cells.lock().unwrap();
        let graves = self.graves.lock().unwrap();
        for run in &batch.runs {
            self.runs.fetch_add(1, Ordering::Relaxed);
            if graves.get(&(run.id, run.stage)).is_some_and(|grave| timestamp_us <= *grave) {
                continue;
            }
            let buried = self.buried.lock().unwrap();
            let is_buried = |slot: u32| {
                let series = (run.id, run.stage, run.stage_index > 0);
                buried.iter().any(|(range, at)| covers(range, series, slot) && timestamp_us <= *at)
            };
            let slots = cells.entry((run.id, run.stage, run.stage_index > 0)).or_default();
            for ((slot, value), count) in (run.first_slot..).zip(batch.values(run)).zip(batch.counts(run)) {
                if value.is_nan() || is_buried(slot) {
                    continue;
                }
                self.rows.fetch_add(1, Ordering::Relaxed);
                let new = (timestamp_us, *value, *count);
                let wins = |old: &Cell| old.0 < new.0 || old.0 == new.0 && old.1 <= new.1;
                if slots.get(&slot).is_none_or(wins) {
                    slots.insert(slot, new);
                }
            }
        }
    }

    fn refusal(&self, batch: &WriteBatch) -> Option<WriteRefusal> {
        let (missing, dead) = (self.missing.lock().unwrap(), self.dead.lock().unwrap());
        if batch.runs.iter().any(|run| missing.contains(&run.stage)) {
            return Some(StoreError::new(ErrorKind::Invalid, "write points: the table is missing").into());
        }
        let runs = batch.runs.iter().enumerate().filter(|(_, run)| dead.contains(&run.id));
        let runs: Vec<usize> = runs.map(|(at, _)| at).collect();
        let error = StoreError::new(ErrorKind::Timeout, "write points: no replica answers");
        let is_silent = self.is_silent.load(Ordering::Relaxed);
        let is_known_down = self.is_known_down.load(Ordering::Relaxed) && runs.len() == batch.runs.len();
        let refusal =
            |runs| WriteRefusal { error, runs: if is_silent { Vec::new() } else { runs }, is_known_down };
        (!runs.is_empty()).then(|| refusal(runs))
    }
}

#[boxed_futures]
impl RemotePoints for TimedRemote {
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        assert!(batch.runs.iter().all(|run| !run.whole && run.stage == batch.runs[0].stage));
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.in_flight_max.fetch_max(now, Ordering::Relaxed);
        let delay = *self.delay.lock().unwrap();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(refusal) = self.refusal(batch) {
            if !refusal.runs.is_empty() {
                let sound = (0..batch.runs.len()).filter(|at| !refusal.runs.contains(at));
                let mut part = WriteBatch::default();
                for run in sound.map(|at| &batch.runs[at]) {
                    part.push(*run, batch.values(run), Some(batch.counts(run)));
                }
                self.apply(&part, timestamp_us);
            }
            return Err(refusal);
        }
        let fate = self.gate.write(&WriteBatch::default()).await;
        let refused = matches!(&fate, Err(error) if error.kind == ErrorKind::Unavailable);
        if !refused {
            self.apply(batch, timestamp_us);
        }
        if fate.is_ok() {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
        Ok(fate?)
    }

    async fn read_own(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.gate.read(&ReadRequest::default()).await?;
        let cells = self.cells.lock().unwrap();
        let columns = request.ranges.iter().map(|range| {
            let coarse = range.stage_index > 0;
            let mut column = Column::unknown((range.until - range.from) as usize, coarse);
            let slots = cells.get(&(range.id, range.stage, coarse));
            for (slot, (_, value, count)) in
                slots.iter().flat_map(|slots| slots.range(range.from..range.until))
            {
                let at = (slot - range.from) as usize;
                column.values[at] = *value;
                if coarse {
                    column.counts[at] = *count;
                }
            }
            column
        });
        Ok(columns.collect())
    }

    async fn written_at(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<i64>>, StoreError> {
        if self.hides_times.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Unavailable, "ask for times: too few replicas answer"));
        }
        let cells = self.cells.lock().unwrap();
        let times = ranges.iter().map(|range| {
            let slots = cells.get(&(range.id, range.stage, range.stage_index > 0));
            let time = |slot: u32| slots.and_then(|slots| slots.get(&slot)).map_or(i64::MIN, |cell| cell.0);
            (range.from..range.until).map(time).collect()
        });
        Ok(times.collect())
    }

    async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let fate = self.gate.write(&WriteBatch::default()).await;
        if matches!(&fate, Err(error) if error.kind == ErrorKind::Unavailable) {
            return fate;
        }
        let mut cells = self.cells.lock().unwrap();
        let mut graves = self.graves.lock().unwrap();
        for (id, stages) in metrics {
            for stage in stages {
                let is_pending = |range: &SlotRange| (range.id, range.stage) == (*id, *stage);
                let has_cells =
                    |coarse| cells.get(&(*id, *stage, coarse)).is_some_and(|slots| !slots.is_empty());
                if has_cells(false) || has_cells(true) || pending.iter().any(is_pending) {
                    graves.insert((*id, *stage), timestamp_us);
                }
                for coarse in [false, true] {
                    if let Some(slots) = cells.get_mut(&(*id, *stage, coarse)) {
                        slots.retain(|_, (at, ..)| *at > timestamp_us);
                    }
                }
            }
        }
        fate
    }

    async fn delete_ranges_at(
        &self,
        ranges: &[SlotRange],
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let fate = self.gate.write(&WriteBatch::default()).await;
        if matches!(&fate, Err(error) if error.kind == ErrorKind::Unavailable) {
            return fate;
        }
        let mut cells = self.cells.lock().unwrap();
        for range in ranges {
            let series = (range.id, range.stage, range.stage_index > 0);
            let is_in = |slot: &u32| (range.from..range.until).contains(slot);
            let has_cells = cells.get(&series).is_some_and(|slots| slots.keys().any(is_in));
            let is_pending = |known: &SlotRange| {
                let same = (known.id, known.stage, known.stage_index > 0) == series;
                same && known.from < range.until && range.from < known.until
            };
            if has_cells || pending.iter().any(is_pending) {
                self.buried.lock().unwrap().push((*range, timestamp_us));
            }
            if let Some(slots) = cells.get_mut(&series) {
                slots.retain(|slot, (at, ..)| !is_in(slot) || *at > timestamp_us);
            }
        }
        fate
    }

    async fn subtract_other_writers(&self, _: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    fn write_limits(&self) -> WriteLimits {
        self.limits
    }
}

/// The memory store as a remote store. Ignores writes that are older than the stored slot.
#[derive(Debug, Default)]
pub(crate) struct MemoryRemote {
    store: MemoryStore,
    /// Locked until an accepted write is in the store. Otherwise the write could undo a deletion that comes
    /// in between.
    stamps: tokio::sync::Mutex<Stamps>,
}

/// Timestamps of the last write of each slot and, for the slot `None`, of the stage's deletion.
#[derive(Debug, Default)]
struct Stamps {
    slots: HashMap<(Series, Option<u32>), i64>,
    /// Deletions of ranges. They stay ranges, because one may reach to the end of time.
    ranges: Vec<(SlotRange, i64)>,
}

impl Stamps {
    /// The batch without the slots for which a newer write or deletion is known.
    fn news(&mut self, batch: &WriteBatch, timestamp_us: i64) -> WriteBatch {
        let mut news = WriteBatch::default();
        for run in &batch.runs {
            let series = (run.id, run.stage, run.stage_index > 0);
            let stage_grave = self.slots.get(&(series, None)).copied().unwrap_or(i64::MIN);
            let mut values = batch.values(run).to_vec();
            for (slot, value) in (run.first_slot..).zip(&mut values) {
                let graves = self.ranges.iter().filter(|(range, _)| covers(range, series, slot));
                let grave = graves.map(|(_, at)| *at).fold(stage_grave, i64::max);
                let stamp = self.slots.entry((series, Some(slot))).or_insert(grave);
                if timestamp_us < (*stamp).max(grave) {
                    *value = f64::NAN;
                } else if !value.is_nan() {
                    *stamp = timestamp_us;
                }
            }
            news.push(*run, &values, Some(batch.counts(run)));
        }
        news
    }
}

#[boxed_futures]
impl RemotePoints for MemoryRemote {
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        let mut stamps = self.stamps.lock().await;
        let news = stamps.news(batch, timestamp_us);
        Ok(self.store.write(&news).await?)
    }

    async fn read_own(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        PointStore::read(&self.store, request).await
    }

    async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        _: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let mut stamps = self.stamps.lock().await;
        for (id, stage) in metrics.iter().flat_map(|(id, stages)| stages.iter().map(move |stage| (id, stage)))
        {
            for coarse in [false, true] {
                stamps.slots.insert(((*id, *stage, coarse), None), timestamp_us);
            }
        }
        PointStore::delete(&self.store, metrics).await
    }

    async fn delete_ranges_at(
        &self,
        ranges: &[SlotRange],
        _: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let mut stamps = self.stamps.lock().await;
        stamps.ranges.extend(ranges.iter().map(|range| (*range, timestamp_us)));
        self.store.delete_ranges(ranges).await
    }

    async fn subtract_other_writers(&self, _: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    fn write_limits(&self) -> WriteLimits {
        PointStore::write_limits(&self.store)
    }
}

pub(crate) fn spool_config() -> SpoolConfig {
    let retain = Some(Duration::from_secs(60));
    SpoolConfig { min_free_bytes: 0, linger: Duration::ZERO, retain, ..SpoolConfig::default() }
}

/// A configuration with short pauses.
pub(crate) fn sender_config() -> SenderConfig {
    SenderConfig {
        retry_first: Duration::from_millis(1),
        retry_max: Duration::from_millis(20),
        defer_after: Duration::from_millis(200),
        retry_deferred_every: Duration::from_millis(50),
    }
}

pub(crate) fn open_store(
    dir: &Path,
    config: SpoolConfig,
    clock: Arc<dyn Clock>,
    remote: Arc<dyn RemotePoints>,
) -> SpooledStore {
    let registry = Registry::new();
    let spool = Spool::open(dir, config, clock, &registry).unwrap();
    SpooledStore::new(spool, remote, BlockLayout { raw_slots: 10 }, &registry)
}

pub(crate) fn id(n: u32) -> MetricId {
    MetricId::of(&format!("metric.{n}"))
}

pub(crate) fn run(id: MetricId, stage_index: u8, first_slot: u32) -> Run {
    Run {
        id,
        stage: if stage_index == 0 { RAW } else { COARSE },
        stage_index,
        aggregation: Aggregation::Average,
        first_slot,
        len: 0,
        at: 0,
        whole: false,
    }
}

pub(crate) fn range(id: MetricId, stage_index: u8, from: u32, until: u32) -> SlotRange {
    let Run { stage, aggregation, .. } = run(id, stage_index, from);
    SlotRange { id, stage, stage_index, aggregation, from, until }
}

pub(crate) async fn values(store: &SpooledStore, id: MetricId, from: u32, until: u32) -> Vec<f64> {
    let request = ReadRequest { ranges: vec![range(id, 0, from, until)], ..Default::default() };
    store.read(&request).await.unwrap().remove(0).values
}
