//! Measures the size of the rows of metrics.

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricId, Stage};
use plumbago_store::{StageSizes, StoreError};

use crate::catalogue::StageKey;
use crate::locks::read;
use crate::open::Open;
use crate::row::key;
use crate::store::{EmbeddedStore, run_blocking};

#[boxed_futures]
impl StageSizes for EmbeddedStore {
    async fn sizes(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<Vec<Vec<u64>>, StoreError> {
        let (store, metrics) = (self.clone(), metrics.to_vec());
        run_blocking("measure metrics", move || {
            let open = store.core.open()?;
            let of_metric = |(id, stages): &(MetricId, Vec<Stage>)| {
                stages.iter().map(|stage| stage_bytes(&open, id, *stage)).collect()
            };
            Ok(metrics.iter().map(of_metric).collect())
        })
        .await
    }
}

fn stage_bytes(open: &Open, id: &MetricId, stage: Stage) -> u64 {
    let keys = [false, true].map(|coarse| StageKey { stage, coarse });
    keys.iter().map(|stage| bytes(open, id, *stage)).sum()
}

/// The size of a metric's rows in bytes. Damaged rows are not counted; readers report them.
fn bytes(open: &Open, id: &MetricId, stage: StageKey) -> u64 {
    let Some(stage) = read(&open.catalogue).stages.get(&stage).cloned() else { return 0 };
    let layers = stage.buckets.values().flat_map(|bucket| &bucket.layers);
    let rows = layers.flat_map(|layer| layer.keyspace.range(key(id, 0)..=key(id, u32::MAX)));
    let sizes = rows.map_while(|row| row.into_inner().ok());
    sizes.map(|(key, value)| (key.len() + value.len()) as u64).sum()
}
