//! Adapts the engine, the relay and aggregation to the listeners' [`PointSink`].

use plumbago_aggregation::{Aggregation, Derived, Fed};
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::Engine;
use plumbago_ingest::{PointSink, Post};
use plumbago_model::PointBatch;
use plumbago_relay::Relay;

/// The engine as the receiver of the listeners' points.
pub(crate) struct EngineSink(pub(crate) Engine);

#[boxed_futures]
impl PointSink for EngineSink {
    async fn push(&self, batch: PointBatch) -> bool {
        self.0.push(batch).await
    }

    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        self.0.try_push(batch)
    }

    async fn wait_written(&self) -> bool {
        self.0.journaled().await.is_ok()
    }
}

/// The engine and the relay. If the engine has no room for a datagram, its points are not relayed either; its sender
/// has to send them again.
#[derive(Clone)]
pub(crate) struct RelayedSink {
    pub(crate) engine: Engine,
    pub(crate) relay: Relay,
}

#[boxed_futures]
impl PointSink for RelayedSink {
    async fn push(&self, batch: PointBatch) -> bool {
        // The relay gets the points first. If the daemon is killed in between, the engine does not have them,
        // and the sender sends them again.
        if !self.relay.is_empty() {
            self.relay.offer(&batch);
        }
        self.engine.push(batch).await
    }

    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        if self.relay.is_empty() {
            return self.engine.try_push(batch);
        }
        let relayed = batch.clone();
        self.engine.try_push(batch)?;
        self.relay.offer(&relayed);
        Ok(())
    }

    async fn wait_written(&self) -> bool {
        self.engine.journaled().await.is_ok()
    }
}

/// Aggregation in front of the engine and the relay, like carbon-aggregator in front of carbon-cache: rules
/// under `[pre]`, aggregation, rules under `[post]`.
#[derive(Clone)]
pub(crate) struct AggregatedSink {
    pub(crate) aggregation: Aggregation,
    pub(crate) post: Post,
    pub(crate) inner: RelayedSink,
}

impl AggregatedSink {
    /// Returns the points to pass on, or `None` if the batch is unchanged, and the number of points that are
    /// not passed on.
    fn feed(&self, batch: &PointBatch) -> (Option<PointBatch>, usize) {
        match self.aggregation.feed(batch) {
            Fed::All => (self.post.rewrite(batch), 0),
            Fed::Only(rest) => {
                let consumed = batch.len() - rest.len();
                (Some(self.post.rewrite(&rest).unwrap_or(rest)), consumed)
            }
        }
    }
}

#[boxed_futures]
impl PointSink for AggregatedSink {
    async fn push(&self, batch: PointBatch) -> bool {
        let (changed, consumed) = self.feed(&batch);
        self.aggregation.note_consumed(consumed);
        self.inner.push(changed.unwrap_or(batch)).await
    }

    /// Points that the engine has no room for are aggregated too, although they count as refused.
    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        let (changed, consumed) = self.feed(&batch);
        match changed {
            None => self.inner.try_push(batch)?,
            Some(changed) => self.inner.try_push(changed).map_err(|_| batch)?,
        }
        self.aggregation.note_consumed(consumed);
        Ok(())
    }

    async fn wait_written(&self) -> bool {
        self.inner.wait_written().await
    }
}

/// Receives the points that aggregation makes. They are not aggregated again.
pub(crate) struct DerivedSink(pub(crate) AggregatedSink);

#[boxed_futures]
impl Derived for DerivedSink {
    async fn push(&self, batch: PointBatch) -> bool {
        self.0.inner.push(self.0.post.normalise(&batch)).await
    }

    async fn wait_written(&self) -> bool {
        self.0.inner.engine.journaled().await.is_ok()
    }
}
