//! Where points go: the trait that the engine is adapted to.

use async_trait::async_trait;
use plumbago_model::PointBatch;

/// Takes the accepted points.
#[async_trait]
pub trait PointSink: Send + Sync + 'static {
    /// Takes a batch, and waits while it is behind: meanwhile its connection is not read, so that the
    /// sender waits too. False when it takes no points any more, and has not taken these.
    #[must_use]
    async fn push(&self, batch: PointBatch) -> bool;

    /// Takes a batch at once, or gives it back: a sender of datagrams cannot be made to wait.
    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch>;
}
