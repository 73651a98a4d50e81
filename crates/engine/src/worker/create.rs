//! Creation of metrics, in batches: first in the metadata store, then in the index. Their points stay in the
//! heads meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumbago_index::Index;
use plumbago_model::MetricConfig;
use plumbago_store::{MetadataStore, MetricMeta};
use plumbago_telemetry::{Conditions, Throttle, with_causes};
use tokio::sync::mpsc;

use crate::command::ShardCommand;
use crate::config::CreateLimit;
use crate::memory::Allowance;
use crate::quotas::{Places, Quotas};
use crate::recover::numbers::FreeNumbers;
use crate::refusal::NameCheck;
use crate::shard::creation::{ConfigFor, CreateGate, Created, NewMetric};
use crate::stats::{Reject, Stats};

/// The condition that holds while new metrics cannot be written to the metadata store.
pub(crate) const UNWRITTEN: &str = "new_metrics";
/// The condition begins after this many failures in a row, about one and a half seconds after the first.
const FAILURES_MAX: u32 = 6;

/// Number of metrics in one call of the metadata store.
const BATCH: usize = 1000;
/// Largest number of metrics queued for creation. When the queue is full, shards with new metrics accept no
/// points.
const QUEUE: usize = 65_536;
/// Number of bytes that a queued metric may take.
const QUEUED_BYTES: u64 = 256;

/// The length of the queue of new metrics, chosen so that it takes a small part of the memory ceiling.
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
    pub(crate) creates: Arc<Creates>,
    pub(crate) quotas: Arc<Quotas>,
}

/// The limit on how many metrics may be created, which can be changed.
#[derive(Debug)]
pub(crate) struct Creates {
    /// The limit and its bucket. The bucket is not used if there is no limit.
    bucket: Mutex<(CreateLimit, Bucket)>,
    /// Whether the limit is [`CreateLimit::UNLIMITED`].
    is_unlimited: AtomicBool,
}

impl Creates {
    pub(crate) fn new(limit: CreateLimit) -> Self {
        let is_unlimited = AtomicBool::new(limit == CreateLimit::UNLIMITED);
        Self { bucket: Mutex::new((limit, Bucket::new(limit.tokens()))), is_unlimited }
    }

    /// Changes the limit. Tokens that were already used in this minute stay used.
    pub(crate) fn set(&self, limit: CreateLimit) {
        let mut bucket = self.lock();
        bucket.0 = limit;
        bucket.1.resize(limit.tokens());
        self.is_unlimited.store(limit == CreateLimit::UNLIMITED, Ordering::Relaxed);
    }

    pub(crate) fn limit(&self) -> CreateLimit {
        self.lock().0
    }

    /// Takes a token for one more metric. Returns whether there was one. `now` is in seconds since the epoch.
    fn take(&self, now: i64) -> bool {
        self.is_unlimited.load(Ordering::Relaxed) || self.lock().1.take(now)
    }

    fn lock(&self) -> MutexGuard<'_, (CreateLimit, Bucket)> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token bucket like carbon's. It holds the tokens of one minute and fills evenly.
#[derive(Debug)]
struct Bucket {
    capacity: f64,
    tokens: f64,
    filled_at: i64,
}

impl Bucket {
    fn new(per_minute: u64) -> Self {
        let capacity = per_minute as f64;
        Self { capacity, tokens: capacity, filled_at: 0 }
    }

    /// Changes the size of the bucket. Tokens that were already taken stay taken.
    fn resize(&mut self, per_minute: u64) {
        let capacity = per_minute as f64;
        self.tokens = (self.tokens + capacity - self.capacity).clamp(0.0, capacity);
        self.capacity = capacity;
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
    /// Makes the gate of a shard. `overflow` are metrics that the start found only in the journal; they are
    /// queued first.
    pub(crate) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Sender<(usize, NewMetric)>,
        shard: usize,
        overflow: Vec<NewMetric>,
    ) -> Self {
        Self { shared, queue, shard, overflow }
    }

    /// Whether no metric waits for room in the queue.
    pub(crate) fn is_drained(&self) -> bool {
        self.overflow.is_empty()
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

    fn places(&self, name: &str) -> Places {
        self.shared.quotas.places(name)
    }

    fn admit(&mut self, now: i64) -> Result<(), Reject> {
        if self.shared.allowance.is_full() {
            return Err(Reject::MemoryLimited);
        }
        if !self.shared.creates.take(now) {
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
    (stats, conditions): (Stats, Conditions),
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
        let stored = create(&*metadata, &metrics, &stats, &conditions).await;
        index.insert(metrics.iter().map(|m| m.name.as_str()));
        stats.created.add(metrics.len() as u64);
        for (shard, control) in shards.iter().enumerate() {
            let of_shard = batch.iter().enumerate().filter(|(_, (s, _))| *s == shard);
            let created: Vec<Created> = of_shard
                .map(|(place, (_, m))| Created { at: m.at, stored: stored.get(&place).cloned() })
                .collect();
            if !created.is_empty() && control.send(ShardCommand::Created(created)).await.is_err() {
                return;
            }
        }
        batch.clear();
    }
}

/// Creates metrics in the metadata store, and retries until it succeeds. If the store already has a metric
/// with other settings, its stored settings are returned, by the metric's position in `metrics`.
async fn create(
    metadata: &dyn MetadataStore,
    metrics: &[MetricMeta],
    stats: &Stats,
    conditions: &Conditions,
) -> HashMap<usize, Arc<MetricConfig>> {
    static FAILED: Throttle = Throttle::new(60_000);
    let (mut pause, mut failures) = (Duration::from_millis(50), 0);
    let stored = loop {
        let error = match metadata.create_new(metrics).await {
            Ok(stored) => break stored,
            Err(error) => error,
        };
        stats.retries.add(1);
        failures += 1;
        if failures >= FAILURES_MAX {
            let why = with_causes(&error);
            conditions.begin(
                UNWRITTEN,
                format!(
                    "new metrics cannot be written to the table of names; retrying. Their points are kept, and known \
                     metrics continue: {why}"
                ),
            );
        }
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
    };
    if failures >= FAILURES_MAX {
        conditions.end(UNWRITTEN);
    }
    stored.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_creations_can_be_changed() {
        let creates = Creates::new(CreateLimit::UNLIMITED);
        let taken = |now| (0..20).filter(|_| creates.take(now)).count();
        assert_eq!(taken(0), 20);
        creates.set(CreateLimit::PerMinute(6));
        assert_eq!((taken(60), taken(60)), (6, 0));
        creates.set(CreateLimit::PerMinute(12));
        assert_eq!((taken(60), taken(70)), (6, 2), "what was used stays used");
        creates.set(CreateLimit::None);
        assert_eq!(taken(6000), 0);
        creates.set(CreateLimit::PerMinute(6));
        assert_eq!(taken(6060), 6);
        assert_eq!(creates.limit(), CreateLimit::PerMinute(6));
    }
}
