//! Adapts the engine to the listeners' [`PointSink`].

use async_trait::async_trait;
use plumbago_engine::Engine;
use plumbago_ingest::PointSink;
use plumbago_model::PointBatch;

/// The engine as the receiver of the listeners' points.
pub(crate) struct EngineSink(pub(crate) Engine);

#[async_trait]
impl PointSink for EngineSink {
    async fn push(&self, batch: PointBatch) -> bool {
        self.0.push(batch).await
    }

    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        self.0.try_push(batch)
    }
}
