//! Checks that a wrapper reports the capabilities of the store inside it and forwards every call to it.

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, MetricId, Stage};
use plumbago_store::layer::{Faults, Faulty};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{
    BlockLayout, Capabilities, Column, FlushBatch, FlushStore, PointStore, ReadRequest, Run, SlotRange,
    Store, StoreError, WriteBatch, WriteLimits,
};

const STAGE: Stage = Stage { resolution: 60, points: 100 };

/// A store with every capability that the memory store lacks. Slot 7 of every metric is pending, and another
/// writer has stored half of every window.
#[derive(Debug, Default)]
struct Shared(MemoryStore);

impl Store for Shared {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            interval_flushes: true,
            ordered_scan: false,
            several_writers: true,
            pending_rows: true,
            keeps_checkpoints: false,
        }
    }
}

#[boxed_futures]
impl PointStore for Shared {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.0.write(batch).await
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.0.read(request).await
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let mut columns = request.unknown();
        for (column, range) in columns.iter_mut().zip(&request.ranges) {
            column.values[(7 - range.from) as usize] = 7.0;
        }
        Ok(columns)
    }

    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        batch.values.iter_mut().for_each(|value| *value /= 2.0);
        Ok(())
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        PointStore::delete(&self.0, metrics).await
    }

    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError> {
        self.0.delete_ranges(ranges).await
    }

    fn write_limits(&self) -> WriteLimits {
        WriteLimits { concurrency: 3, slots_per_call: 11 }
    }
}

impl FlushStore for Shared {
    fn layout(&self) -> BlockLayout {
        BlockLayout { raw_slots: 1 }
    }

    fn commit(&self, batch: &FlushBatch) -> Result<(), StoreError> {
        self.0.commit(batch)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.0.sync()
    }

    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError> {
        self.0.scan_states(visit)
    }
}

fn run() -> Run {
    let id = MetricId::of("a");
    let aggregation = Aggregation::Sum;
    Run { id, stage: STAGE, stage_index: 1, aggregation, first_slot: 7, len: 0, at: 0, whole: false }
}

#[tokio::test]
async fn a_faulty_store_has_the_capabilities_of_the_store_inside_it() {
    let store = Faulty::new(Shared::default(), Faults::new());
    assert_eq!(store.capabilities(), Shared::default().capabilities());
    assert_eq!(store.write_limits(), Shared::default().write_limits());
    assert_eq!(store.layout(), Shared::default().layout());

    let Run { id, stage, stage_index, aggregation, .. } = run();
    let ranges = vec![SlotRange { id, stage, stage_index, aggregation, from: 5, until: 10 }];
    let parts = store.occupied_pending(&ranges).await.unwrap().concat();
    assert_eq!((parts[0].start, parts[0].end), (5, 10));
    assert!(MemoryStore::default().occupied_pending(&ranges).await.unwrap()[0].is_empty());
    let pending = store.read_pending(&ReadRequest { ranges, ..ReadRequest::default() }).await.unwrap();
    assert_eq!(pending[0].values[2], 7.0);

    let mut batch = WriteBatch::default();
    batch.push(run(), &[8.0], None);
    store.subtract_other_writers(&mut batch).await.unwrap();
    assert_eq!(batch.values, [4.0]);
}

#[tokio::test]
async fn a_lost_answer_leaves_the_batch_as_it_was() {
    let mut batch = WriteBatch::default();
    batch.push(run(), &[8.0], None);
    let store = Faulty::new(Shared::default(), Faults::by_chance(1, 0.9));
    while store.subtract_other_writers(&mut batch).await.is_err() {
        assert_eq!(batch.values, [8.0]);
    }
    assert_eq!(batch.values, [4.0]);
}
