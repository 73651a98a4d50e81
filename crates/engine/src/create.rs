//! Creation of metrics: written to the metadata store, then added to the index, in batches; points
//! wait in their heads meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumbago_index::Index;
use plumbago_model::MetricConfig;
use plumbago_store::{MetadataStore, MetricMeta};
use tokio::sync::mpsc;

use crate::places::FreeNumbers;
use crate::refusal::NameCheck;
use crate::stats::{Reject, Stats};
use crate::task::Control;

/// Metrics written to the metadata store at once.
const BATCH: usize = 1000;
/// Metrics that may wait for their creation; beyond it reading of points pauses.
pub(crate) const QUEUE: usize = 65_536;

/// How a metric name becomes a configuration.
pub type ConfigFor = Arc<dyn Fn(&str) -> Arc<MetricConfig> + Send + Sync>;

/// A metric that was never seen before.
#[derive(Debug)]
pub(crate) struct NewMetric {
    /// Its place in its shard.
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) config: Arc<MetricConfig>,
    pub(crate) created_on: u32,
}

/// What a shard asks before it takes in a new metric.
pub(crate) trait CreateGate {
    /// True when no further metric can be submitted now; the shard then stops before the next batch.
    fn is_full(&self) -> bool;
    /// Says no to a name with a reason.
    fn check(&self, _name: &str) -> Result<(), Reject> {
        Ok(())
    }
    /// Says no with a reason.
    fn admit(&mut self, now: i64) -> Result<(), Reject>;
    fn config_for(&self, name: &str) -> Arc<MetricConfig>;
    /// A number that no metric has, if there are any left.
    fn next_number(&mut self) -> Option<u32>;
    fn submit(&mut self, metric: NewMetric);
}

/// What the gates of all shards share.
pub(crate) struct Shared {
    pub(crate) config_for: ConfigFor,
    pub(crate) name_check: NameCheck,
    pub(crate) numbers: Mutex<FreeNumbers>,
    pub(crate) memory_full: Arc<AtomicBool>,
    /// `None` for no limit.
    pub(crate) bucket: Option<Mutex<Bucket>>,
}

/// Carbon's bucket: holds a minute's worth, fills evenly.
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

    /// Takes a token if there is one.
    fn take(&mut self, now: i64) -> bool {
        let seconds = (now - self.filled_at).max(0) as f64;
        self.tokens = (self.tokens + seconds * self.capacity / 60.0).min(self.capacity);
        self.filled_at = now;
        let taken = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(taken));
        taken
    }
}

/// The gate of one shard.
pub(crate) struct Gate {
    shared: Arc<Shared>,
    queue: mpsc::Sender<(usize, NewMetric)>,
    shard: usize,
    overflow: Vec<NewMetric>,
}

impl Gate {
    /// `overflow` are metrics that the start found in the journal only.
    pub(crate) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Sender<(usize, NewMetric)>,
        shard: usize,
        overflow: Vec<NewMetric>,
    ) -> Self {
        Self { shared, queue, shard, overflow }
    }

    /// Tries again to queue what did not fit.
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
        !self.overflow.is_empty()
    }

    fn check(&self, name: &str) -> Result<(), Reject> {
        Ok((self.shared.name_check)(name)?)
    }

    fn admit(&mut self, now: i64) -> Result<(), Reject> {
        if self.shared.memory_full.load(Ordering::Relaxed) {
            return Err(Reject::MemoryLimited);
        }
        let Some(bucket) = &self.shared.bucket else { return Ok(()) };
        let admitted = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(now);
        if admitted { Ok(()) } else { Err(Reject::CreateLimited) }
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

/// Writes new metrics to the metadata store and the index, and tells their shards. Ends when all
/// gates are gone.
pub(crate) async fn run(
    mut queue: mpsc::Receiver<(usize, NewMetric)>,
    metadata: Arc<dyn MetadataStore>,
    index: Arc<Index>,
    shards: Vec<mpsc::Sender<Control>>,
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
            if !created.is_empty() && control.send(Control::Created(created)).await.is_err() {
                return;
            }
        }
        batch.clear();
    }
}

/// Tries until the store takes them: their points wait for it.
async fn create(metadata: &dyn MetadataStore, metrics: &[MetricMeta], stats: &Stats) {
    let mut pause = Duration::from_millis(50);
    while let Err(error) = metadata.create(metrics).await {
        stats.retries.add(1);
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            metrics = metrics.len(),
            "metadata not written, trying again"
        );
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(10));
    }
}
