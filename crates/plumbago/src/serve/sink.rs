//! Adapts the engine and the relay to the listeners' [`PointSink`].

use async_trait::async_trait;
use plumbago_engine::Engine;
use plumbago_ingest::PointSink;
use plumbago_model::PointBatch;
use plumbago_relay::Relay;

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

/// The engine and the relay. Points that the engine has no room for are not relayed; the sender of a datagram has
/// to send them again.
pub(crate) struct RelayedSink {
    pub(crate) engine: Engine,
    pub(crate) relay: Relay,
}

#[async_trait]
impl PointSink for RelayedSink {
    async fn push(&self, batch: PointBatch) -> bool {
        // Before the engine has them: after a kill in between, a sender that gets no further sends them again.
        self.relay.offer(&batch);
        self.engine.push(batch).await
    }

    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        let relayed = batch.clone();
        self.engine.try_push(batch)?;
        self.relay.offer(&relayed);
        Ok(())
    }
}
