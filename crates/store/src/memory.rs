//! A store in memory: the reference implementation for the conformance suite, and the store in the
//! simulation of the engine.

mod directories;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricConfig, MetricId, Stage};

use crate::{
    BlockLayout, Capabilities, Column, FlushBatch, FlushStore, MetaEntry, MetaPage, MetadataStore,
    MetricMeta, PointStore, ReadRequest, RowCount, RowProblem, SlotRange, Store, StoreError, WriteBatch,
    WriteLimits,
};

/// The slots of one stage of a metric: slot number to (value, count).
type Slots = BTreeMap<u32, (f64, RowCount)>;

/// Keeps all rows in maps. Clones share the maps, so a test can drop one clone, as a crashed process would,
/// and continue with another, as after a restart.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    layout: BlockLayout,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    points: HashMap<(MetricId, Stage), Slots>,
    states: BTreeMap<MetricId, Vec<u8>>,
    metrics: BTreeMap<String, MetricMeta>,
    /// Incomplete or damaged rows, set by [`MemoryStore::put_problem`].
    problems: BTreeMap<String, RowProblem>,
    /// When each metric's rows were written, in microseconds since the epoch. Contains all metrics that have
    /// any row.
    written_us: BTreeMap<String, i64>,
    /// When a writer last recorded that it writes the metric, in seconds since the epoch.
    updated: HashMap<String, u32>,
    /// Series that are hidden from searches by tag, each with the time since when, in seconds since the
    /// epoch.
    hidden: BTreeMap<String, u32>,
    /// When the row of each directory was written, in microseconds since the epoch.
    directories: BTreeMap<String, i64>,
    /// The time at which rows are written, in microseconds since the epoch.
    now_us: i64,
    /// The stamp of the engine's checkpoint, until a change makes it invalid.
    checkpoint: Option<[u8; 16]>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(30)
    }
}

impl MemoryStore {
    /// An empty store whose raw blocks have `raw_slots` slots.
    pub fn new(raw_slots: u32) -> Self {
        Self { layout: BlockLayout { raw_slots }, inner: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the rows to change them.
    fn lock_to_write(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        inner.checkpoint = None;
        inner
    }
}

impl Inner {
    fn forget(&mut self, name: &str) {
        self.metrics.remove(name);
        self.problems.remove(name);
        self.written_us.remove(name);
        self.updated.remove(name);
        self.hidden.remove(name);
    }

    fn apply(&mut self, batch: &WriteBatch) {
        for run in &batch.runs {
            let slots = self.points.entry((run.id, run.stage)).or_default();
            for ((slot, value), count) in (run.first_slot..).zip(batch.values(run)).zip(batch.counts(run)) {
                if !value.is_nan() {
                    slots.insert(slot, (*value, *count));
                } else if run.whole {
                    slots.remove(&slot);
                }
            }
        }
    }
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { ordered_scan: true, keeps_checkpoints: true, ..Capabilities::default() }
    }
}

#[boxed_futures]
impl PointStore for MemoryStore {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.lock_to_write().apply(batch);
        Ok(())
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let inner = self.lock();
        let columns = request.ranges.iter().map(|range| {
            let len = range.until.saturating_sub(range.from);
            let mut column = Column::unknown(len as usize, range.stage_index > 0);
            let slots = inner.points.get(&(range.id, range.stage));
            for (slot, (value, count)) in
                slots.iter().flat_map(|slots| slots.range(range.from..range.from + len))
            {
                let at = (slot - range.from) as usize;
                column.values[at] = *value;
                if let Some(known) = column.counts.get_mut(at) {
                    *known = *count;
                }
            }
            column
        });
        Ok(columns.collect())
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        Ok(request.unknown())
    }

    async fn subtract_other_writers(&self, _batch: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        let mut inner = self.lock_to_write();
        for (id, stages) in metrics {
            for stage in stages {
                inner.points.remove(&(*id, *stage));
            }
        }
        Ok(())
    }

    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError> {
        let mut inner = self.lock_to_write();
        for range in ranges {
            if let Some(slots) = inner.points.get_mut(&(range.id, range.stage)) {
                slots.retain(|slot, _| !(range.from..range.until).contains(slot));
            }
        }
        Ok(())
    }

    fn write_limits(&self) -> WriteLimits {
        WriteLimits { concurrency: 1, slots_per_call: 65_536 }
    }
}

impl FlushStore for MemoryStore {
    fn layout(&self) -> BlockLayout {
        self.layout
    }

    fn commit(&self, batch: &FlushBatch) -> Result<(), StoreError> {
        let mut inner = self.lock_to_write();
        inner.apply(&batch.rows);
        for state in &batch.states {
            if state.bytes.is_empty() {
                inner.states.remove(&state.id);
            } else {
                inner.states.insert(state.id, state.bytes.clone());
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError> {
        self.lock().states.iter().for_each(|(id, bytes)| visit(*id, bytes));
        Ok(())
    }

    fn note_checkpoint(&self, stamp: [u8; 16]) -> Result<(), StoreError> {
        self.lock().checkpoint = Some(stamp);
        Ok(())
    }

    fn checkpoint(&self) -> Result<Option<[u8; 16]>, StoreError> {
        Ok(self.lock().checkpoint)
    }

    fn take_held(&self) -> Result<Option<u64>, StoreError> {
        self.lock().checkpoint = None;
        Ok(None)
    }
}

#[boxed_futures]
impl MetadataStore for MemoryStore {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        let mut inner = self.lock_to_write();
        for metric in metrics {
            inner.create_rows(metric);
            inner
                .metrics
                .entry(metric.name.clone())
                .and_modify(|known| known.config = metric.config.clone())
                .or_insert_with(|| metric.clone());
        }
        Ok(())
    }

    /// Keeps the settings of metrics that exist, as a store does that other programs write too.
    async fn create_new(
        &self,
        metrics: &[MetricMeta],
    ) -> Result<Vec<(usize, Arc<MetricConfig>)>, StoreError> {
        let mut inner = self.lock_to_write();
        let mut others = Vec::new();
        for (place, metric) in metrics.iter().enumerate() {
            inner.create_rows(metric);
            let known = inner.metrics.entry(metric.name.clone()).or_insert_with(|| metric.clone());
            if known.config != metric.config {
                others.push((place, Arc::clone(&known.config)));
            }
        }
        Ok(others)
    }

    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        let inner = self.lock();
        Ok(names.iter().map(|name| inner.metrics.get(*name).cloned()).collect())
    }

    async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        let mut inner = self.lock_to_write();
        for name in names {
            inner.forget(name);
        }
        Ok(())
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        let inner = self.lock();
        let after = position.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut page = MetaPage::default();
        let mut rest = inner.metrics.range((start, Bound::Unbounded)).peekable();
        while let Some((name, metric)) = rest.next() {
            page.text.push_str(name);
            page.entries.push(MetaEntry {
                name_end: page.text.len() as u32,
                created_on: metric.created_on,
                config: metric.config.clone(),
            });
            if page.entries.len() >= limit.max(1) && rest.peek().is_some() {
                page.next = Some(name.as_bytes().to_vec());
                break;
            }
        }
        Ok(page)
    }

    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        self.lock().hidden.extend(names.iter().map(|name| ((*name).to_owned(), at)));
        Ok(())
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        let mut inner = self.lock();
        for name in names {
            inner.hidden.remove(*name);
        }
        Ok(())
    }

    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        Ok(self.lock().hidden.iter().map(|(name, at)| (name.clone(), *at)).collect())
    }

    /// Does nothing: this store does not survive its process.
    async fn sync_names(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
