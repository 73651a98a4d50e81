//! The receiver of accepted points.

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::PointBatch;

/// Receives the accepted points.
#[boxed_futures]
pub trait PointSink: Send + Sync + 'static {
    /// Accepts a batch, and waits while its queues are full. Meanwhile the connection is not read, so that
    /// the sender has to wait too. Returns `false` if the sink has failed or is shutting down; the batch is
    /// then dropped.
    #[must_use]
    async fn push(&self, batch: PointBatch) -> bool;

    /// Accepts a batch without waiting, because a sender of datagrams cannot be made to wait.
    ///
    /// # Errors
    /// Returns the batch if a queue is full, or if the sink has failed or is shutting down.
    fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch>;

    /// Waits until a kill of the process cannot lose the points that were pushed before: the journal has handed them
    /// to the kernel. Returns `false` if the sink has failed or is shutting down.
    #[must_use]
    async fn wait_written(&self) -> bool;
}
