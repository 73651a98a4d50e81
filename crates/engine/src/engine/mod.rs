//! The engine as the binary sees it: created from its parts, started, fed, read and stopped.

use std::collections::hash_map::RandomState;
use std::fmt::{self, Debug};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::try_join_all;
use plumbago_index::Index;
use plumbago_journal::Journal;
use plumbago_model::Clock;
use plumbago_store::{FetchError, FlushStore, MetadataStore, PointStore};
use plumbago_telemetry::{Conditions, Damage, Registry};
use tokio::sync::{mpsc, oneshot, watch};

use crate::checkpoint::CheckpointFile;
use crate::command::{ShardCommand, ShardGauges, ask};
use crate::config::Config;
use crate::ledger::Ledger;
use crate::memory::Allowance;
use crate::quotas::Quotas;
use crate::read::Reader;
use crate::refusal::NameCheck;
use crate::router::{NameHash, Router, ShardBatch};
use crate::shard::creation::ConfigFor;
use crate::shard::crowded::CrowdedMetrics;
use crate::shard::read::HeadQuery;
use crate::stats::{Stats, store_call};
use crate::worker::create::{self, Creates};
use crate::worker::flusher::StoreTrouble;

mod activity;
mod histories;
mod housekeeping;
mod limits;
mod metrics;
mod push;
mod settings;
mod start;
mod stop;
#[cfg(test)]
mod tests;
mod threads;

pub use limits::QuotaError;
pub use settings::ChangeError;

/// Largest number of commands in the queue of one shard.
const COMMAND_QUEUE: usize = 1024;

/// What the engine depends on.
pub struct EngineParts {
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Registers self-metrics.
    pub registry: Registry,
    /// The names of all metrics; new names are added.
    pub index: Arc<Index>,
    /// The store that points are read from.
    pub points: Arc<dyn PointStore>,
    /// The store that flushes are committed to, with its state rows.
    pub flush: Arc<dyn FlushStore>,
    /// The metadata store: it stores new metrics, and lists all metrics at the start.
    pub metadata: Arc<dyn MetadataStore>,
    /// The journal, which keeps accepted points until they are flushed.
    pub journal: Journal,
    /// The file that a clean stop leaves for the next start, if the store allows it; `None` for never.
    pub checkpoint: Option<PathBuf>,
    /// The time that one journal segment covers.
    pub journal_segment: Duration,
    /// Chooses the retention and the aggregation of a new metric.
    pub config_for: ConfigFor,
    /// Refuses names that the store cannot hold.
    pub name_check: NameCheck,
    /// Returns the memory that the process uses, in bytes.
    pub memory_used: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The part of `memory_max` that caches, buffers and requests may take, in bytes.
    pub memory_reserved: u64,
    /// The limits on the metrics below directories.
    pub quotas: Arc<Quotas>,
    /// Where the engine raises conditions for operators, such as memory at its ceiling or many refused
    /// points.
    pub conditions: Conditions,
}

/// The receivers of a shard's queues. They are kept here until the shard's worker is started.
struct QueueEnds {
    commands: mpsc::Receiver<ShardCommand>,
    points: mpsc::Receiver<ShardBatch>,
}

struct Inner {
    config: Config,
    parts: EngineParts,
    router: Router,
    stats: Stats,
    workers: Vec<mpsc::Sender<ShardCommand>>,
    queues: Vec<mpsc::Sender<ShardBatch>>,
    gauges: Vec<Arc<ShardGauges>>,
    allowance: Arc<Allowance>,
    /// Whether reading from senders pauses because memory is at its ceiling.
    paused: watch::Sender<bool>,
    store_trouble: Arc<StoreTrouble>,
    give_up: Arc<AtomicBool>,
    ends: Mutex<Vec<QueueEnds>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The checkpoint that was found, until the start uses or removes it.
    found: Mutex<Option<CheckpointFile>>,
    /// What the gates of all shards share, once the engine is started.
    gates: OnceLock<Arc<create::Shared>>,
    /// Held for reading while a metric is changed, first in the metadata store and then in its head. A stop
    /// for a checkpoint holds it for writing, so that the checkpoint has both changes or neither.
    between_stores: tokio::sync::RwLock<()>,
    /// Held while the settings of a metric change.
    changes: tokio::sync::Mutex<()>,
    /// Held while quotas change.
    quota_changes: tokio::sync::Mutex<()>,
    creates: Arc<Creates>,
}

/// The one writer and the one reader of points. Clones share the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

impl Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

impl Engine {
    /// Creates an engine. It queues points, but applies none before [`Engine::start`].
    pub fn new(config: Config, parts: EngineParts) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = if config.shards == 0 { (cores / 2).max(1) } else { config.shards };
        let stats = Stats::new(&parts.registry);
        let (mut workers, mut queues, mut gauges, mut ends) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..shards {
            let (commands, commands_end) = mpsc::channel(COMMAND_QUEUE);
            let (queue, points) = mpsc::channel(threads::point_queue(config.memory_max.0));
            workers.push(commands);
            queues.push(queue);
            gauges.push(Arc::new(ShardGauges::default()));
            ends.push(QueueEnds { commands: commands_end, points });
        }
        let creates = Arc::new(Creates::new(config.max_creates_per_minute));
        let found = find_checkpoint(parts.checkpoint.as_deref(), shards);
        // The seed is random, so that no sender can choose names whose hashes collide.
        let random = || RandomState::new().hash_one("plumbago");
        let router = Router::new(found.as_ref().map_or_else(random, |found| found.header.seed), shards);
        Self(Arc::new(Inner {
            config,
            parts,
            router,
            stats,
            workers,
            queues,
            gauges,
            allowance: Arc::default(),
            paused: watch::Sender::new(false),
            store_trouble: Arc::default(),
            give_up: Arc::default(),
            ends: Mutex::new(ends),
            threads: Mutex::new(Vec::new()),
            found: Mutex::new(found),
            gates: OnceLock::new(),
            between_stores: tokio::sync::RwLock::default(),
            changes: tokio::sync::Mutex::default(),
            quota_changes: tokio::sync::Mutex::default(),
            creates,
        }))
    }

    /// Returns a reader of points that uses neither peers nor the metadata store.
    pub fn reader(&self) -> Reader {
        Reader::new(
            self.0.router,
            self.0.workers.clone(),
            Arc::clone(&self.0.parts.points),
            store_call(&self.0.parts.registry, "read"),
        )
    }

    /// Whether a stop has given up on the store.
    pub(crate) fn has_given_up(&self) -> bool {
        self.0.give_up.load(Ordering::Relaxed)
    }

    pub(crate) fn parts(&self) -> &EngineParts {
        &self.0.parts
    }

    /// Waits for the lock that allows only one change of settings at a time.
    pub(crate) async fn alone(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.changes.lock().await
    }

    /// Waits for a guard. Hold it from a change in the metadata store until the head of the metric has the
    /// change too.
    pub(crate) async fn between_stores(&self) -> tokio::sync::RwLockReadGuard<'_, ()> {
        self.0.between_stores.read().await
    }

    pub(crate) fn router(&self) -> &Router {
        &self.0.router
    }

    pub(crate) fn allowance(&self) -> &Allowance {
        &self.0.allowance
    }

    /// Waits until the points that are queued now are applied.
    pub(crate) async fn apply_queued(&self) -> Result<(), FetchError> {
        let nothing = HeadQuery::default;
        let began = std::time::Instant::now();
        let asked = self.0.workers.iter().map(|worker| async move {
            ask(worker, |sender| ShardCommand::Read(nothing(), began, sender)).await
        });
        try_join_all(asked).await.map(|_| ())
    }

    /// Asks the shards that own the names, all at once. The answers are in the order of the names.
    async fn ask_each<T: Clone + Default>(
        &self,
        names: &[&str],
        question: impl Fn(Vec<NameHash>, oneshot::Sender<Vec<T>>) -> ShardCommand,
    ) -> Result<Vec<T>, FetchError> {
        let hashes: Vec<NameHash> = names.iter().map(|name| self.0.router.hash(name)).collect();
        let (hashes, question) = (&hashes, &question);
        let questions = self.0.router.group(hashes).into_iter().map(|(shard, places)| async move {
            let asked = places.iter().map(|place| hashes[*place]).collect();
            let answer = ask(&self.0.workers[shard], |sender| question(asked, sender)).await?;
            Ok::<_, FetchError>((places, answer))
        });
        let mut answers = vec![T::default(); names.len()];
        for (places, part) in try_join_all(questions).await? {
            for (place, answer) in places.into_iter().zip(part) {
                answers[place] = answer;
            }
        }
        Ok(answers)
    }

    /// Returns the ledger. It is exact for the points that the shards have applied; points that are still
    /// queued count as held.
    ///
    /// # Errors
    ///
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn ledger(&self) -> Result<Ledger, FetchError> {
        let parts = try_join_all(self.0.workers.iter().map(|shard| ask(shard, ShardCommand::Ledger))).await?;
        let mut whole = Ledger::default();
        parts.into_iter().for_each(|part| whole += part);
        Ok(self.with_queues(whole))
    }

    /// Waits until a kill cannot lose the points that were queued before.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn journaled(&self) -> Result<(), FetchError> {
        try_join_all(self.0.workers.iter().map(|shard| ask(shard, ShardCommand::Journaled))).await?;
        Ok(())
    }

    /// Returns metrics that get several points for each slot of their raw stage most of the time, so that all
    /// but the last of them are replaced. Only a sample of the metrics is checked.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn crowded(&self) -> Result<CrowdedMetrics, FetchError> {
        let parts =
            try_join_all(self.0.workers.iter().map(|shard| ask(shard, ShardCommand::Crowded))).await?;
        let mut whole = CrowdedMetrics::default();
        parts.into_iter().for_each(|part| whole.merge(part));
        self.0.stats.crowded.set(whole.count as f64);
        Ok(whole)
    }

    /// Flushes the points that are held now and returns once all of them are committed.
    ///
    /// # Errors
    ///
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn flush_all(&self) -> Result<(), FetchError> {
        try_join_all(self.0.workers.iter().map(|shard| ask(shard, ShardCommand::FlushAll))).await?;
        self.sync_and_drop().await;
        Ok(())
    }

    fn with_queues(&self, mut ledger: Ledger) -> Ledger {
        let received = self.0.stats.received.get();
        ledger.queued = received.saturating_sub(ledger.received);
        ledger.held += ledger.queued;
        ledger.received = ledger.received.max(received);
        ledger.lost = Damage::of(&self.0.parts.registry).lost_points();
        ledger
    }
}

/// Opens the checkpoint, if there is one for this number of shards.
fn find_checkpoint(path: Option<&Path>, shards: usize) -> Option<CheckpointFile> {
    match CheckpointFile::open(path?) {
        Ok(found) => found.filter(|found| {
            let fits = found.header.shards.len() == shards;
            if !fits {
                tracing::info!("the checkpoint is not used: the number of shards has changed");
            }
            fits
        }),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the checkpoint is not used");
            None
        }
    }
}
