//! The engine as the binary sees it: made from its parts, started, fed, read, stopped.

use std::collections::hash_map::RandomState;
use std::fmt::{self, Debug};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plumbago_index::Index;
use plumbago_journal::Journal;
use plumbago_model::{Clock, PointBatch};
use plumbago_store::{FlushStore, MetadataStore, MetricMeta, PointStore};
use plumbago_telemetry::Registry;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::create::{self, ConfigFor, Gate, NewMetric};
use crate::fetch::FetchError;
use crate::flusher::Flusher;
use crate::ledger::Ledger;
use crate::places::FreeNumbers;
use crate::reader::Reader;
use crate::recover::{self, Recovered, Sources, StartError};
use crate::refusal::NameCheck;
use crate::router::{NameHash, Router, Share};
use crate::shard::live::Adopted;
use crate::shard::{Limits, Shard};
use crate::stats::Stats;
use crate::task::{Control, Owner, Progress, Shown};

/// Batches that wait for an owner before reading pauses.
const POINT_QUEUE: usize = 64;
/// Questions that wait for an owner.
const CONTROL_QUEUE: usize = 1024;
/// Jobs that wait for a flusher.
const JOB_QUEUE: usize = 4;

/// What the engine works with.
pub struct Parts {
    /// Where "now" comes from.
    pub clock: Arc<dyn Clock>,
    /// Where self-metrics go.
    pub registry: Registry,
    /// Which metrics exist.
    pub index: Arc<Index>,
    /// Where points are read, and late ones changed.
    pub points: Arc<dyn PointStore>,
    /// Where flushes are committed.
    pub flush: Arc<dyn FlushStore>,
    /// Where metrics are created.
    pub metadata: Arc<dyn MetadataStore>,
    /// Where accepted points are kept until they are flushed.
    pub journal: Journal,
    /// How much time a journal segment covers.
    pub journal_segment: Duration,
    /// How a new metric is kept.
    pub config_for: ConfigFor,
    /// Which names the store can hold.
    pub name_check: NameCheck,
    /// Memory the process takes, in bytes.
    pub memory_used: Arc<dyn Fn() -> u64 + Send + Sync>,
}

struct Ends {
    control: mpsc::Receiver<Control>,
    points: mpsc::Receiver<Share>,
}

struct Inner {
    config: Config,
    parts: Parts,
    router: Router,
    stats: Stats,
    controls: Vec<mpsc::Sender<Control>>,
    queues: Vec<mpsc::Sender<Share>>,
    shown: Vec<Arc<Shown>>,
    pause: Arc<AtomicBool>,
    give_up: Arc<AtomicBool>,
    ends: Mutex<Vec<Ends>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The one writer and the one reader of points. Cloning shares it.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

impl Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

impl Engine {
    /// Makes an engine that takes points into its queues but does nothing with them before
    /// [`Engine::start`].
    pub fn new(config: Config, parts: Parts) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = if config.shards == 0 { (cores / 2).max(1) } else { config.shards };
        let stats = Stats::new(&parts.registry);
        let (mut controls, mut queues, mut shown, mut ends) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..shards {
            let (control, control_end) = mpsc::channel(CONTROL_QUEUE);
            let (queue, points) = mpsc::channel(POINT_QUEUE);
            controls.push(control);
            queues.push(queue);
            shown.push(Arc::new(Shown::default()));
            ends.push(Ends { control: control_end, points });
        }
        // Nobody outside can make names collide, since nobody knows the seed.
        let router = Router::new(RandomState::new().hash_one("plumbago"), shards);
        Self(Arc::new(Inner {
            config,
            parts,
            router,
            stats,
            controls,
            queues,
            shown,
            pause: Arc::default(),
            give_up: Arc::default(),
            ends: Mutex::new(ends),
            threads: Mutex::new(Vec::new()),
        }))
    }

    /// Loads what earlier runs left, then begins to take points.
    pub async fn start(&self) -> Result<Recovered, StartError> {
        let inner = &*self.0;
        let ends = std::mem::take(&mut *inner.ends.lock().unwrap_or_else(PoisonError::into_inner));
        if ends.is_empty() {
            return Err(StartError::Again);
        }
        let mut shards: Vec<Shard> = ends
            .iter()
            .map(|_| Shard::new(inner.parts.flush.layout(), self.limits(), inner.stats.clone()))
            .collect();
        let sources = Sources {
            metadata: &inner.parts.metadata,
            flush: &*inner.parts.flush,
            journal: &inner.parts.journal,
            index: &inner.parts.index,
            router: inner.router,
            config_for: &inner.parts.config_for,
            now: inner.parts.clock.now(),
        };
        let start = recover::recover(&sources, &mut shards).await?;
        self.run(ends, shards, start.creations, start.numbers)?;
        tokio::spawn(self.clone().keep_house());
        Ok(start.report)
    }

    /// Gives points to the engine; waits while it is behind. False when it is stopping.
    pub async fn push(&self, batch: PointBatch) -> bool {
        let points = batch.len() as u64;
        let mut permits = Vec::with_capacity(self.0.queues.len());
        for queue in &self.0.queues {
            match queue.reserve().await {
                Ok(permit) => permits.push(permit),
                Err(_) => return false,
            }
        }
        self.0.stats.received.add(points);
        for (permit, share) in permits.into_iter().zip(self.0.router.split(batch)) {
            permit.send(share);
        }
        true
    }

    /// Gives points to the engine, or gives them back when it is behind or stopping.
    pub fn try_push(&self, batch: PointBatch) -> Result<(), PointBatch> {
        let mut permits = Vec::with_capacity(self.0.queues.len());
        for queue in &self.0.queues {
            match queue.try_reserve() {
                Ok(permit) => permits.push(permit),
                Err(_) => return Err(batch),
            }
        }
        self.0.stats.received.add(batch.len() as u64);
        for (permit, share) in permits.into_iter().zip(self.0.router.split(batch)) {
            permit.send(share);
        }
        Ok(())
    }

    /// Reads points.
    pub fn reader(&self) -> Reader {
        Reader::new(self.0.router, self.0.controls.clone(), Arc::clone(&self.0.parts.points))
    }

    /// Takes in metrics that other programs have created.
    pub async fn adopt(&self, metrics: &[MetricMeta]) -> Result<(), FetchError> {
        let mut shares: Vec<Vec<Adopted>> = self.0.controls.iter().map(|_| Vec::new()).collect();
        for metric in metrics {
            let hash = self.0.router.hash(&metric.name);
            let adopted = Adopted { hash, id: metric.id(), config: Arc::clone(&metric.config) };
            shares[self.0.router.shard(&hash)].push(adopted);
        }
        for (owner, share) in self.0.controls.iter().zip(shares).filter(|(_, share)| !share.is_empty()) {
            owner.send(Control::Adopt(share)).await.map_err(|_| FetchError::Stopping)?;
        }
        self.0.parts.index.insert(metrics.iter().map(|metric| metric.name.as_str()));
        Ok(())
    }

    /// Which of the metrics are known.
    pub async fn know(&self, names: &[&str]) -> Result<Vec<bool>, FetchError> {
        self.ask_each(names, Control::Know).await
    }

    /// Which of the metrics got a point since `since` (seconds since the epoch) or are being created.
    pub async fn are_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError> {
        self.ask_each(names, |hashes, answer| Control::AreWritten(hashes, since, answer)).await
    }

    /// Forgets metrics that got no point since `since`: heads and index, not the stores. One that has
    /// points which are not stored stays. Says which are forgotten; one that was never known is.
    pub async fn forget(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError> {
        let index = &self.0.parts.index;
        // The index first: a point that comes once the head is gone puts the name back.
        let listed: Vec<bool> = names.iter().map(|name| index.remove(name)).collect();
        let forgotten = self.ask_each(names, |hashes, answer| Control::Forget(hashes, since, answer)).await;
        let stays = |at: &usize| listed[*at] && forgotten.as_ref().map_or(true, |forgotten| !forgotten[*at]);
        index.insert((0..names.len()).filter(stays).map(|at| names[at]));
        forgotten
    }

    /// Asks each owner for its share of the names; answers in the order of the names.
    async fn ask_each(
        &self,
        names: &[&str],
        question: impl Fn(Vec<NameHash>, oneshot::Sender<Vec<bool>>) -> Control,
    ) -> Result<Vec<bool>, FetchError> {
        let hashes: Vec<NameHash> = names.iter().map(|name| self.0.router.hash(name)).collect();
        let mut answers = vec![false; names.len()];
        for (shard, owner) in self.0.controls.iter().enumerate() {
            let places: Vec<usize> =
                (0..names.len()).filter(|place| self.0.router.shard(&hashes[*place]) == shard).collect();
            let (sender, receiver) = oneshot::channel();
            let share = places.iter().map(|place| hashes[*place]).collect();
            owner.send(question(share, sender)).await.map_err(|_| FetchError::Stopping)?;
            for (place, answer) in places.iter().zip(receiver.await.map_err(|_| FetchError::Stopping)?) {
                answers[*place] = answer;
            }
        }
        Ok(answers)
    }

    /// What became of all points. Exact for what the owners have applied; what is still in their
    /// queues is held.
    pub async fn ledger(&self) -> Result<Ledger, FetchError> {
        let mut whole = Ledger::default();
        for owner in &self.0.controls {
            let (sender, receiver) = oneshot::channel();
            owner.send(Control::Ledger(sender)).await.map_err(|_| FetchError::Stopping)?;
            whole += receiver.await.map_err(|_| FetchError::Stopping)?;
        }
        Ok(self.with_queues(whole))
    }

    /// Writes all held points to the store.
    pub async fn flush_all(&self) -> Result<(), FetchError> {
        let mut answers = Vec::new();
        for owner in &self.0.controls {
            let (sender, receiver) = oneshot::channel();
            owner.send(Control::FlushAll(sender)).await.map_err(|_| FetchError::Stopping)?;
            answers.push(receiver);
        }
        for answer in answers {
            answer.await.map_err(|_| FetchError::Stopping)?;
        }
        self.sync_and_drop().await;
        Ok(())
    }

    /// Takes what is queued, makes everything durable and ends the threads. Listeners must be
    /// closed by now. With `patience`, gives up on a store that fails for longer: its points stay
    /// in the journal.
    pub async fn stop(&self, patience: Duration) -> Ledger {
        let mut answers = Vec::new();
        for owner in &self.0.controls {
            let (sender, receiver) = oneshot::channel();
            if owner.send(Control::Stop(sender)).await.is_ok() {
                answers.push(receiver);
            }
        }
        let mut whole = Ledger::default();
        let deadline = tokio::time::Instant::now() + patience;
        for answer in answers {
            match tokio::time::timeout_at(deadline, answer).await {
                Ok(Ok(ledger)) => whole += ledger,
                _ => {
                    tracing::error!("the store has not taken everything in time: the journal keeps it");
                    self.0.give_up.store(true, Ordering::Relaxed);
                }
            }
        }
        if !self.0.give_up.load(Ordering::Relaxed) {
            let threads = std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner));
            let _ =
                tokio::task::spawn_blocking(move || threads.into_iter().for_each(|t| drop(t.join()))).await;
        }
        self.sync_and_drop().await;
        self.with_queues(whole)
    }

    fn with_queues(&self, mut ledger: Ledger) -> Ledger {
        let received = self.0.stats.received.get();
        ledger.held += received.saturating_sub(ledger.received);
        ledger.received = ledger.received.max(received);
        ledger
    }

    fn limits(&self) -> Limits {
        let config = &self.0.config;
        let segment = self.0.parts.journal_segment.as_secs().max(1);
        Limits {
            at_intervals: self.0.parts.flush.takes_intervals(),
            emit_open: config.emit_open_windows,
            future_max: config.future_max.as_secs() as i64,
            checkpoint_segments: (config.checkpoint_after.as_secs() / segment).max(1) as u32,
            idle_after: config.idle_after.as_secs() as i64,
        }
    }

    fn run(
        &self,
        ends: Vec<Ends>,
        shards: Vec<Shard>,
        creations: Vec<Vec<NewMetric>>,
        numbers: FreeNumbers,
    ) -> Result<(), StartError> {
        let inner = &*self.0;
        let (queue, new_metrics) = mpsc::channel(create::QUEUE);
        let per_minute = inner.config.max_creates_per_minute;
        let shared = Arc::new(create::Shared {
            config_for: Arc::clone(&inner.parts.config_for),
            name_check: Arc::clone(&inner.parts.name_check),
            numbers: Mutex::new(numbers),
            memory_full: Arc::clone(&inner.pause),
            bucket: (per_minute > 0).then(|| Mutex::new(create::Bucket::new(per_minute))),
        });
        let runtime = Handle::current();
        for (number, ((ends, shard), creations)) in ends.into_iter().zip(shards).zip(creations).enumerate() {
            let flusher = |jobs| Flusher {
                jobs,
                owner: inner.controls[number].clone(),
                flush: Arc::clone(&inner.parts.flush),
                points: Arc::clone(&inner.parts.points),
                runtime: runtime.clone(),
                stats: inner.stats.clone(),
                give_up: Arc::clone(&inner.give_up),
            };
            let (jobs, jobs_end) = mpsc::channel(JOB_QUEUE);
            let (reading, reading_end) = mpsc::channel(JOB_QUEUE);
            let (flusher, reader) = (flusher(jobs_end), flusher(reading_end));
            let owner = Owner {
                shard,
                writer: inner.parts.journal.writer(),
                journal: inner.parts.journal.clone(),
                gate: Gate::new(Arc::clone(&shared), queue.clone(), number, creations),
                clock: Arc::clone(&inner.parts.clock),
                shown: Arc::clone(&inner.shown[number]),
                control: ends.control,
                points: ends.points,
                jobs,
                reading,
                walk_every: if self.limits().at_intervals {
                    inner.config.flush_interval.0
                } else {
                    Duration::ZERO
                },
                state: Progress::default(),
            };
            self.spawn(&format!("flusher-{number}"), move || flusher.run())?;
            self.spawn(&format!("late-{number}"), move || reader.run())?;
            self.spawn(
                &format!("owner-{number}"),
                move || match tokio::runtime::Builder::new_current_thread().enable_time().build() {
                    Ok(runtime) => runtime.block_on(owner.run()),
                    Err(error) => tracing::error!(%error, "an owner thread has no runtime"),
                },
            )?;
        }
        let metadata = Arc::clone(&inner.parts.metadata);
        let index = Arc::clone(&inner.parts.index);
        tokio::spawn(create::run(new_metrics, metadata, index, inner.controls.clone(), inner.stats.clone()));
        Ok(())
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(StartError::Thread)?;
        self.0.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Shows gauges, watches memory, and lets go of journal segments.
    async fn keep_house(self) {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut turn = 0u32;
        loop {
            second.tick().await;
            if self.0.controls.iter().all(mpsc::Sender::is_closed) {
                return;
            }
            self.show();
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(20) {
                self.sync_and_drop().await;
            }
        }
    }

    fn show(&self) {
        let inner = &*self.0;
        let sum = |what: fn(&Shown) -> u64| inner.shown.iter().map(|s| what(s)).sum::<u64>();
        let applied = sum(|s| s.applied.load(Ordering::Relaxed));
        let queued = inner.stats.received.get().saturating_sub(applied);
        inner.stats.held.set((sum(|s| s.held.load(Ordering::Relaxed)) + queued) as f64);
        inner.stats.metrics.set(sum(|s| s.metrics.load(Ordering::Relaxed)) as f64);
        inner.stats.head_bytes.set(sum(|s| s.bytes.load(Ordering::Relaxed)) as f64);
        let limit = inner.config.memory_max.0;
        let full = limit > 0 && (inner.parts.memory_used)() > limit;
        if full && !inner.pause.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit_bytes = limit,
                "memory is at its ceiling: new metrics are refused (engine.memory_max)"
            );
        }
        inner.pause.store(full, Ordering::Relaxed);
        let waits = inner.shown.iter().any(|s| s.paused.load(Ordering::Relaxed));
        inner.stats.paused.set(f64::from(u8::from(waits || full)));
    }

    /// Drops the journal segments that no owner needs, after a sync of what replaces them.
    async fn sync_and_drop(&self) {
        let inner = Arc::clone(&self.0);
        let needed = inner.shown.iter().map(|s| s.needed_from.load(Ordering::Relaxed)).min().unwrap_or(0);
        let done = tokio::task::spawn_blocking(move || {
            if inner.parts.journal.segments().iter().all(|s| s.number >= needed) {
                return Ok(());
            }
            inner.parts.flush.sync().map_err(|e| e.to_string())?;
            inner.parts.journal.drop_before(needed).map(|_| ()).map_err(|e| e.to_string())
        });
        if let Ok(Err(error)) = done.await {
            tracing::warn!(error, "journal segments kept longer");
        }
    }
}
