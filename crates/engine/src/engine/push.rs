//! Queues points for the shards that own their metrics.

use std::sync::Arc;

use futures::future::join_all;
use plumbago_model::PointBatch;
use tokio::sync::mpsc::Permit;
use tokio::sync::mpsc::error::TrySendError;

use super::Engine;
use crate::router::ShardBatch;

impl Engine {
    /// Queues a batch for the shards that own its metrics. Waits while one of their queues is full; the
    /// points of the other shards are queued at once. Returns `false` when the engine is shutting down. In
    /// that case points that are not queued yet are dropped.
    pub async fn push(&self, batch: PointBatch) -> bool {
        if *self.0.paused.borrow() {
            // The sender of this channel lives as long as the engine.
            let _ = self.0.paused.subscribe().wait_for(|paused| !paused).await;
        }
        let routed = self.0.router.route(&batch);
        let batch = Arc::new(batch);
        let mut full = Vec::new();
        for (shard, entries) in routed {
            let share = ShardBatch { batch: Arc::clone(&batch), entries };
            match self.0.queues[shard].try_reserve() {
                Ok(permit) => self.send(permit, share),
                Err(TrySendError::Full(())) => full.push(self.send_when_free(shard, share)),
                Err(TrySendError::Closed(())) => return false,
            }
        }
        full.is_empty() || join_all(full).await.into_iter().all(|sent| sent)
    }

    async fn send_when_free(&self, shard: usize, share: ShardBatch) -> bool {
        match self.0.queues[shard].reserve().await {
            Ok(permit) => {
                self.send(permit, share);
                true
            }
            Err(_) => false,
        }
    }

    fn send(&self, permit: Permit<'_, ShardBatch>, share: ShardBatch) {
        self.0.stats.received.add(share.entries.len() as u64);
        permit.send(share);
    }

    /// Queues a batch for the shards that own its metrics, without waiting.
    ///
    /// # Errors
    /// Gives the whole batch back when the queue of one of these shards is full, or when the engine is
    /// shutting down.
    pub fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        if *self.0.paused.borrow() {
            return Err(batch);
        }
        let routed = self.0.router.route(&batch);
        let mut permits = Vec::with_capacity(routed.len());
        for (shard, _) in &routed {
            match self.0.queues[*shard].try_reserve() {
                Ok(permit) => permits.push(permit),
                Err(_) => return Err(batch),
            }
        }
        let batch = Arc::new(batch);
        for (permit, (_, entries)) in permits.into_iter().zip(routed) {
            self.send(permit, ShardBatch { batch: Arc::clone(&batch), entries });
        }
        Ok(())
    }
}
