//! Metrics whose values are computed from name and slot, so that every test knows the expected values.

use std::path::Path;
use std::sync::Arc;

use plumbago_model::{Aggregation, ManualClock, MetricId, Stage};
use plumbago_store::{FlushBatch, FlushStore, PointStore, ReadRequest, Run, SlotRange, StateRow, StoreError};
use plumbago_store_embedded::{Config, EmbeddedStore};
use plumbago_telemetry::Registry;

pub(crate) const BLOCK: u32 = 40;
/// A stage so long that nothing in it expires.
pub(crate) const LONG: Stage = Stage { resolution: 60, points: 5_256_000 };
/// The start of a day.
pub(crate) const START: u32 = 29_000 * 1440;

/// A store with its clock and counters.
pub(crate) struct Store {
    pub(crate) store: EmbeddedStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) registry: Registry,
}

/// Opens a store that needs no free space.
pub(crate) fn try_open(dir: &Path, min_free_bytes: u64) -> Result<Store, StoreError> {
    let clock = Arc::new(ManualClock::at(i64::from(START) * 60));
    let registry = Registry::new();
    let mut config = Config { block_slots: BLOCK, ..Config::default() };
    config.min_free_bytes.0 = min_free_bytes;
    let store = EmbeddedStore::open(dir, config, clock.clone(), &registry)?;
    Ok(Store { store, clock, registry })
}

pub(crate) fn open(dir: &Path) -> Store {
    try_open(dir, 0).unwrap()
}

/// A metric of the tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) number: u32,
    pub(crate) id: MetricId,
    pub(crate) stage: Stage,
}

pub(crate) fn metrics(count: u32, stage: Stage) -> Vec<Metric> {
    (0..count)
        .map(|number| Metric { number, id: MetricId::of(&format!("test.metric{number}")), stage })
        .collect()
}

impl Metric {
    /// The first slot of the metric's first block, which is not before [`START`].
    pub(crate) fn first(&self, store: &EmbeddedStore) -> u32 {
        store.layout().block_start(&self.id, START + BLOCK - 1) as u32
    }

    pub(crate) fn value(&self, slot: u32) -> f64 {
        let mixed =
            (u64::from(slot) << 20 | u64::from(self.number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match self.number % 3 {
            0 => f64::from(self.number),
            1 => mixed as f64,
            _ => mixed as f64 / 7.0,
        }
    }

    pub(crate) fn run(&self, first_slot: u32, whole: bool) -> Run {
        Run {
            id: self.id,
            stage: self.stage,
            stage_index: 0,
            aggregation: Aggregation::Average,
            first_slot,
            len: 0,
            at: 0,
            whole,
        }
    }

    pub(crate) fn range(&self, from: u32, until: u32) -> SlotRange {
        SlotRange {
            id: self.id,
            stage: self.stage,
            stage_index: 0,
            aggregation: Aggregation::Average,
            from,
            until,
        }
    }
}

/// A batch with block `number` of every metric. The state row of each metric contains the number of its
/// blocks.
pub(crate) fn block(store: &EmbeddedStore, metrics: &[Metric], number: u32) -> FlushBatch {
    let mut batch = FlushBatch::default();
    for metric in metrics {
        let first = metric.first(store) + number * BLOCK;
        let values: Vec<f64> = (first..first + BLOCK).map(|slot| metric.value(slot)).collect();
        batch.rows.push(metric.run(first, true), &values, None);
        batch.states.push(StateRow { id: metric.id, bytes: (number + 1).to_le_bytes().to_vec() });
    }
    batch
}

/// The number of blocks of each metric according to its state row.
pub(crate) fn blocks_by_state(store: &EmbeddedStore) -> std::collections::BTreeMap<MetricId, u32> {
    let mut blocks = std::collections::BTreeMap::new();
    store
        .scan_states(&mut |id, bytes| {
            blocks.insert(id, u32::from_le_bytes(bytes.try_into().unwrap()));
        })
        .unwrap();
    blocks
}

/// Checks the first `blocks` blocks of each metric, and that nothing follows.
pub(crate) fn assert_blocks(store: &EmbeddedStore, metrics: &[Metric], blocks: impl Fn(&Metric) -> u32) {
    for metric in metrics {
        let first = metric.first(store);
        let end = first + blocks(metric) * BLOCK;
        let column = read(store, metric, first, end + 2 * BLOCK);
        for (slot, value) in (first..).zip(&column) {
            let wanted = if slot < end { metric.value(slot) } else { f64::NAN };
            let same = value.is_nan() && wanted.is_nan() || value.to_bits() == wanted.to_bits();
            assert!(same, "metric {} slot {}: {value} is not {wanted}", metric.number, slot - first);
        }
    }
}

pub(crate) fn read(store: &EmbeddedStore, metric: &Metric, from: u32, until: u32) -> Vec<f64> {
    let request = ReadRequest { ranges: vec![metric.range(from, until)], ..Default::default() };
    block_on(store.read(&request)).unwrap().remove(0).values
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
