//! The engine as the listeners' sink.

use async_trait::async_trait;
use plumbago_engine::Engine;
use plumbago_ingest::PointSink;
use plumbago_model::PointBatch;

/// Gives points to the engine.
pub(crate) struct EngineSink(pub(crate) Engine);

#[async_trait]
impl PointSink for EngineSink {
    async fn push(&self, batch: PointBatch) {
        if !self.0.push(batch).await {
            // Listeners end before the engine does; only a failed engine refuses.
            tracing::error!("the engine takes no points any more");
        }
    }

    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        self.0.try_push(batch)
    }
}
