//! The stop: the workers end, and their points in memory go to the store or, if there are many metrics, into
//! a checkpoint.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use plumbago_model::MetricConfig;
use tokio::sync::oneshot;

use super::{Engine, Inner};
use crate::checkpoint::{self, CheckpointError, Content, Header, ShardHeader};
use crate::command::{ShardCommand, StopOrder, Stopped};
use crate::ledger::Ledger;
use crate::shard::{NUMBER_BITS, Shard};

/// How long a stop waits until no metric is being changed in the metadata store and in heads. After this time
/// it continues without a checkpoint.
const BETWEEN_STORES_TIMEOUT: Duration = Duration::from_secs(2);

impl Engine {
    /// Applies what is queued, makes everything durable and ends the threads. Listeners must be closed before
    /// this call. Gives up after `timeout` when the store keeps failing: the points stay in the journal.
    pub async fn stop(&self, timeout: Duration) -> Ledger {
        let between_stores = match self.wants_checkpoint() {
            true => tokio::time::timeout(BETWEEN_STORES_TIMEOUT, self.0.between_stores.write()).await.ok(),
            false => None,
        };
        let stopped = self.stop_workers(between_stores.is_some(), timeout).await;
        let mut whole = Ledger::default();
        let mut shards = Vec::with_capacity(stopped.len());
        for Stopped { ledger, shard } in stopped {
            whole += ledger;
            shards.extend(shard.map(|shard| *shard));
        }
        let has_given_up = self.has_given_up();
        if !has_given_up {
            let threads = std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner));
            let _ =
                tokio::task::spawn_blocking(move || threads.into_iter().for_each(|t| drop(t.join()))).await;
        }
        if !has_given_up
            && shards.is_empty()
            && let Err(error) = self.0.parts.flush.note_held(whole.held.saturating_sub(whole.waiting))
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot save the number of points in the state rows; nothing is lost, but if these rows are damaged \
                 later, a start cannot say how many points are lost with them"
            );
        }
        self.sync_and_drop().await;
        if !has_given_up && shards.len() == self.0.workers.len() {
            self.write_checkpoint(shards).await;
        }
        self.with_queues(whole)
    }

    async fn stop_workers(&self, for_checkpoint: bool, timeout: Duration) -> Vec<Stopped> {
        let mut answers = Vec::new();
        for worker in &self.0.workers {
            let (done, answer) = oneshot::channel();
            if worker.send(ShardCommand::Stop(StopOrder { for_checkpoint, done })).await.is_ok() {
                answers.push(answer);
            }
        }
        let mut stopped = Vec::with_capacity(answers.len());
        let deadline = tokio::time::Instant::now() + timeout;
        for answer in answers {
            if let Ok(Ok(answer)) = tokio::time::timeout_at(deadline, answer).await {
                stopped.push(answer);
            } else {
                tracing::error!(
                    "the stop timed out before all points were stored; the journal keeps the rest for the next start"
                );
                self.0.give_up.store(true, Ordering::Relaxed);
            }
        }
        stopped
    }

    /// Whether a stop should try to leave a checkpoint.
    fn wants_checkpoint(&self) -> bool {
        let inner = &*self.0;
        let metrics: u64 = inner.gauges.iter().map(|gauges| gauges.metrics.load(Ordering::Relaxed)).sum();
        let capabilities = inner.parts.flush.capabilities();
        // Only a start without a checkpoint finds the numbers of deleted metrics that can be used again.
        let has_numbers = || {
            let numbers = inner.gates.get().map(|gates| &gates.numbers);
            let left = numbers.map(|numbers| numbers.lock().unwrap_or_else(PoisonError::into_inner).left());
            left.is_some_and(|left| left > 1 << (NUMBER_BITS - 1))
        };
        inner.parts.checkpoint.is_some()
            && capabilities.keeps_checkpoints
            && !capabilities.interval_flushes
            && metrics >= inner.config.checkpoint_min_metrics
            && inner.parts.journal.trouble().is_none()
            && has_numbers()
    }

    /// Writes the checkpoint. If this fails, nothing is lost, because the journal has everything that is not
    /// stored.
    async fn write_checkpoint(&self, shards: Vec<Shard>) {
        let began = Instant::now();
        let synced = self.0.parts.metadata.sync_names().await.map_err(CheckpointError::from);
        let inner = Arc::clone(&self.0);
        let written = tokio::task::spawn_blocking(move || {
            synced?;
            inner.save_checkpoint(&shards)
        });
        match written.await {
            Ok(Ok(saved)) => tracing::info!(
                metrics = saved.metrics,
                bytes = saved.bytes,
                ms = began.elapsed().as_millis() as u64,
                "wrote a checkpoint for the next start"
            ),
            Ok(Err(error)) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "no checkpoint was written, so the next start takes longer; the journal has all points"
            ),
            Err(_) => {}
        }
    }
}

impl Inner {
    /// Saves the checkpoint. The order matters: everything that the checkpoint relies on is on the disk
    /// before the checkpoint gets its name, and any change made meanwhile removes the store's note.
    fn save_checkpoint(&self, shards: &[Shard]) -> Result<checkpoint::Saved, CheckpointError> {
        let parts = &self.parts;
        let Some(path) = &parts.checkpoint else { return Err(CheckpointError::Damaged("it has no path")) };
        parts.journal.sync()?;
        let (configs, of_shards) = configs(shards);
        let numbers = self
            .gates
            .get()
            .map(|gates| gates.numbers.lock().unwrap_or_else(PoisonError::into_inner).ranges().to_vec());
        let of_shard =
            |shard: &Shard| ShardHeader { metrics: shard.metrics() as u64, held: shard.ledger.held };
        let header = Header {
            stamp: checkpoint::new_stamp(),
            seed: self.router.seed(),
            block_slots: parts.flush.layout().raw_slots,
            sequence: parts.journal.sequence(),
            segment: parts.journal.current_segment(),
            segments: parts.journal.segments(),
            shards: shards.iter().map(of_shard).collect(),
            configs,
            numbers: numbers.unwrap_or_default(),
        };
        parts.flush.note_checkpoint(header.stamp)?;
        parts.flush.sync()?;
        let content = Content {
            header: &header,
            index: &parts.index,
            router: self.router,
            shards,
            configs: &of_shards,
        };
        checkpoint::save(path, &content)
    }
}

/// The settings of all shards without duplicates, and for each shard the position of each of its layouts
/// among them.
fn configs(shards: &[Shard]) -> (Vec<Arc<MetricConfig>>, Vec<Vec<u32>>) {
    let (mut all, mut known) = (Vec::new(), HashMap::new());
    let of_shards = shards.iter().map(|shard| {
        let places = shard.layouts.iter().map(|layout| {
            *known.entry(layout.config.to_text()).or_insert_with(|| {
                all.push(Arc::clone(&layout.config));
                all.len() as u32 - 1
            })
        });
        places.collect()
    });
    let of_shards = of_shards.collect();
    (all, of_shards)
}
