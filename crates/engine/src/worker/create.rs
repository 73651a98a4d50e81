//! Creation of metrics, in batches: first in the metadata store, then in the index. Their points stay in the
//! heads meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumbago_index::Index;
use plumbago_model::MetricConfig;
use plumbago_store::{MetadataStore, MetricMeta};
use plumbago_telemetry::Throttle;
use tokio::sync::mpsc;

use crate::memory::Allowance;
use crate::recover::numbers::FreeNumbers;
use crate::refusal::NameCheck;
use crate::shard::creation::{ConfigFor, CreateGate, NewMetric};
use crate::stats::{Reject, Stats};
use crate::worker::ShardCommand;

/// Metrics in one call of the metadata store.
const BATCH: usize = 1000;
/// Metrics queued for creation, at most. When the queue is full, shards with new metrics take no points.
const QUEUE: usize = 65_536;
/// Bytes that a queued metric may take.
const QUEUED_BYTES: u64 = 256;

/// The length of the queue of new metrics, so that it takes a small part of the memory ceiling.
pub(crate) fn queue_len(memory_max: u64) -> usize {
    if memory_max == 0 {
        return QUEUE;
    }
    ((memory_max / 64 / QUEUED_BYTES) as usize).clamp(BATCH, QUEUE)
}

/// State that the gates of all shards share.
pub(crate) struct Shared {
    pub(crate) config_for: ConfigFor,
    pub(crate) name_check: NameCheck,
    pub(crate) numbers: Mutex<FreeNumbers>,
    pub(crate) allowance: Arc<Allowance>,
    /// `None` for no limit.
    pub(crate) bucket: Option<Mutex<Bucket>>,
}

/// A token bucket like carbon's. It holds the tokens of one minute and fills evenly.
#[derive(Debug)]
pub(crate) struct Bucket {
    capacity: f64,
    tokens: f64,
    filled_at: i64,
}

impl Bucket {
    pub(crate) fn new(per_minute: u64) -> Self {
        let capacity = per_minute as f64;
        Self { capacity, tokens: capacity, filled_at: 0 }
    }

    /// Takes a token if there is one. `now` is in seconds since the epoch.
    fn take(&mut self, now: i64) -> bool {
        let seconds = (now - self.filled_at).max(0) as f64;
        self.tokens = (self.tokens + seconds * self.capacity / 60.0).min(self.capacity);
        self.filled_at = now;
        let taken = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(taken));
        taken
    }
}

/// Limits and queues the creations of one shard.
pub(crate) struct Gate {
    shared: Arc<Shared>,
    queue: mpsc::Sender<(usize, NewMetric)>,
    shard: usize,
    overflow: Vec<NewMetric>,
}

impl Gate {
    /// `overflow` are metrics that the start found in the journal only; they are queued first.
    pub(crate) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Sender<(usize, NewMetric)>,
        shard: usize,
        overflow: Vec<NewMetric>,
    ) -> Self {
        Self { shared, queue, shard, overflow }
    }

    /// Queues metrics for which there was no room before.
    pub(crate) fn drain(&mut self) {
        while let Some(metric) = self.overflow.pop() {
            if let Err(metric) = self.send(metric) {
                self.overflow.push(metric);
                return;
            }
        }
    }

    fn send(&self, metric: NewMetric) -> Result<(), NewMetric> {
        self.queue.try_send((self.shard, metric)).map_err(|e| match e {
            mpsc::error::TrySendError::Full((_, metric)) | mpsc::error::TrySendError::Closed((_, metric)) => {
                metric
            }
        })
    }
}

impl CreateGate for Gate {
    fn is_full(&self) -> bool {
        !self.overflow.is_empty() || self.shared.allowance.is_used_up()
    }

    fn check(&self, name: &str) -> Result<(), Reject> {
        Ok((self.shared.name_check)(name)?)
    }

    fn admit(&mut self, now: i64) -> Result<(), Reject> {
        if self.shared.allowance.is_full() {
            return Err(Reject::MemoryLimited);
        }
        if let Some(bucket) = &self.shared.bucket
            && !bucket.lock().unwrap_or_else(PoisonError::into_inner).take(now)
        {
            return Err(Reject::CreateLimited);
        }
        if self.shared.allowance.take() { Ok(()) } else { Err(Reject::MemoryLimited) }
    }

    fn config_for(&self, name: &str) -> Arc<MetricConfig> {
        (self.shared.config_for)(name)
    }

    fn next_number(&mut self) -> Option<u32> {
        self.shared.numbers.lock().unwrap_or_else(PoisonError::into_inner).take_lowest()
    }

    fn submit(&mut self, metric: NewMetric) {
        if let Err(metric) = self.send(metric) {
            self.overflow.push(metric);
        }
    }
}

/// Creates queued metrics and notifies their shards. Ends when all gates are dropped.
pub(crate) async fn run(
    mut queue: mpsc::Receiver<(usize, NewMetric)>,
    metadata: Arc<dyn MetadataStore>,
    index: Arc<Index>,
    shards: Vec<mpsc::Sender<ShardCommand>>,
    stats: Stats,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        let metrics: Vec<MetricMeta> = batch
            .iter()
            .map(|(_, m)| MetricMeta {
                name: m.name.clone(),
                config: Arc::clone(&m.config),
                created_on: m.created_on,
            })
            .collect();
        create(&*metadata, &metrics, &stats).await;
        index.insert(metrics.iter().map(|m| m.name.as_str()));
        stats.created.add(metrics.len() as u64);
        for (shard, control) in shards.iter().enumerate() {
            let created: Vec<u32> = batch.iter().filter(|(s, _)| *s == shard).map(|(_, m)| m.at).collect();
            if !created.is_empty() && control.send(ShardCommand::Created(created)).await.is_err() {
                return;
            }
        }
        batch.clear();
    }
}

/// Creates metrics in the metadata store, and retries until it succeeds.
async fn create(metadata: &dyn MetadataStore, metrics: &[MetricMeta], stats: &Stats) {
    static FAILED: Throttle = Throttle::new(60_000);
    let mut pause = Duration::from_millis(50);
    while let Err(error) = metadata.create(metrics).await {
        stats.retries.add(1);
        if let Some(suppressed) = FAILED.pass_now() {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                metrics = metrics.len(),
                suppressed,
                "failed to write new metrics to the metadata store; their points are kept, and the write is retried"
            );
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}
