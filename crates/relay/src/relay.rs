//! The relay with all its destinations.

use std::fmt::{self, Debug};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use plumbago_model::{Clock, PointBatch};
use plumbago_telemetry::{Conditions, Damage, Registry, Severity};
use plumbago_tls::{CaError, Client};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::destination::Destination;
use crate::frame::Point;
use crate::inlet::Inlet;
use crate::queue::Queue;
use crate::routes::Routes;
use crate::sender::{Sender, Status};
use crate::stats::{AWAY, Balance, DISK, DROPPED, Stats};
use crate::writer::{DiskTrouble, Writer};

/// A destination that is unreachable for less than this causes no warning, because servers are restarted
/// sometimes.
const AWAY_MIN: Duration = Duration::from_secs(3);
/// How long the condition about dropped points lasts after the last dropped point.
const DROPPED_FOR: Duration = Duration::from_secs(150);
/// How long a stop waits for points that can still be sent. The rest is sent after the next start.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Sends accepted points on to other servers. Clones share the same relay.
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    lanes: Vec<Lane>,
    routes: ArcSwapOption<Routes>,
    clock: Arc<dyn Clock>,
    is_last: CancellationToken,
    stop: CancellationToken,
    writers: Mutex<Vec<JoinHandle<()>>>,
    senders: tokio_util::task::TaskTracker,
    dropped: Mutex<(u64, Option<Instant>)>,
}

/// The parts that belong to one destination.
struct Lane {
    destination: Destination,
    inlet: Arc<Inlet>,
    queue: Arc<Queue>,
    stats: Stats,
    status: Arc<Status>,
    disk: Arc<DiskTrouble>,
}

/// Why a relay could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings have problems, each as `key: message`.
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    /// The file of `relay.ca` cannot be used.
    #[error("relay.ca")]
    Tls(#[from] CaError),
    /// A queue cannot be opened.
    #[error("cannot open the relay's queue in {}", dir.display())]
    Queue {
        /// Directory of the queue.
        dir: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// What [`Relay::open`] needs besides the settings.
pub struct RelayParts<'a> {
    /// Directory of all queues.
    pub dir: &'a Path,
    /// While the disk has fewer free bytes than this, the queues drop their oldest points.
    pub min_free_bytes: u64,
    /// The clock that tells the time.
    pub clock: Arc<dyn Clock>,
    /// The registry for the figures of the relay.
    pub registry: &'a Registry,
}

impl Relay {
    /// Opens the queues and starts the threads that write them. From now on points are accepted. They are
    /// sent after [`Relay::start`].
    ///
    /// # Errors
    ///
    /// If the settings have problems, or a queue cannot be opened.
    pub fn open(config: &Config, parts: RelayParts<'_>) -> Result<Self, OpenError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(OpenError::Settings(problems));
        }
        let rules = config.load_rules().map_err(OpenError::Settings)?;
        let mut lanes = Vec::new();
        let mut writers = Vec::new();
        for destination in config.parsed() {
            let dir = parts.dir.join(destination.directory());
            let failed = |source| OpenError::Queue { dir: dir.clone(), source };
            let (lane, writer) = Lane::open(destination, &dir, config.max_bytes.0, &parts).map_err(failed)?;
            writers.push(writer.start().map_err(failed)?);
            lanes.push(lane);
        }
        warn_of_others(parts.dir, &lanes);
        let relay = Self(Arc::new(Inner {
            lanes,
            routes: ArcSwapOption::from(rules.map(Routes::new).map(Arc::new)),
            clock: parts.clock,
            is_last: CancellationToken::new(),
            stop: CancellationToken::new(),
            writers: Mutex::new(writers),
            senders: tokio_util::task::TaskTracker::new(),
            dropped: Mutex::default(),
        }));
        Ok(relay)
    }

    /// Starts to send. Needs a Tokio runtime with several threads.
    ///
    /// # Errors
    ///
    /// If the file of `relay.ca` cannot be used.
    pub fn start(&self, config: &Config) -> Result<(), OpenError> {
        let needs_tls = self.0.lanes.iter().any(|lane| lane.destination.tls);
        let tls = needs_tls.then(|| Client::trusting(&config.ca)).transpose()?;
        for lane in &self.0.lanes {
            let sender = Sender {
                destination: lane.destination.clone(),
                tls: tls.clone(),
                queue: Arc::clone(&lane.queue),
                stats: lane.stats.clone(),
                status: Arc::clone(&lane.status),
                resend: config.resend.0,
                is_last: self.0.is_last.clone(),
                stop: self.0.stop.clone(),
            };
            self.0.senders.spawn(sender.run());
        }
        Ok(())
    }

    /// Returns whether there are no destinations.
    pub fn is_empty(&self) -> bool {
        self.0.lanes.is_empty()
    }

    /// Accepts the points of a batch for the destinations to which the rules send them. Never waits for a
    /// disk or a server.
    pub fn offer(&self, batch: &PointBatch) {
        let inner = &self.0;
        let points = |point: &plumbago_model::PointRef| Point {
            name: batch.name_bytes(point),
            timestamp: point.timestamp,
            value: point.value,
        };
        let routes = inner.routes.load();
        let Some(routes) = routes.as_ref() else {
            return inner.lanes.iter().for_each(|lane| lane.add(batch.points().iter().map(points)));
        };
        let chosen = routes.choose(batch);
        let used = chosen.iter().fold(0_u64, |used, chosen| used | chosen);
        for (number, lane) in inner.lanes.iter().enumerate().filter(|(number, _)| used >> number & 1 == 1) {
            let gets = |(chosen, _): &(&u64, _)| *chosen >> number & 1 == 1;
            lane.add(chosen.iter().zip(batch.points()).filter(gets).map(|(_, point)| points(point)));
        }
    }

    /// Reads the rules again. If the file has problems, the old rules stay in effect.
    ///
    /// # Errors
    ///
    /// All problems, each as `key: message`.
    pub fn reload(&self, config: &Config) -> Result<(), Vec<String>> {
        if !self.is_empty() {
            self.0.routes.store(config.load_rules()?.map(Routes::new).map(Arc::new));
        }
        Ok(())
    }

    /// The ledgers of all destinations.
    pub fn balances(&self) -> Vec<Balance> {
        self.0.lanes.iter().map(Lane::balance).collect()
    }

    /// Brings the gauges and the conditions up to date.
    pub fn report(&self, conditions: &Conditions) {
        let now = self.0.clock.now();
        self.0.lanes.iter().for_each(|lane| lane.report(now));
        let away: Vec<String> = self.0.lanes.iter().filter_map(Lane::trouble).collect();
        let text = "points for these destinations of the relay wait on disk (relay.max_bytes): ";
        let text = (!away.is_empty()).then(|| text.to_owned() + &away.join("; "));
        conditions.set(Severity::Warning, AWAY, text);
        let unwritten: Vec<String> = self.0.lanes.iter().filter_map(Lane::disk_trouble).collect();
        let text = "queues of the relay cannot be written; points for these destinations wait in memory, and are dropped \
                    when more than 16 MiB wait. Make room on the disk: ";
        let text = (!unwritten.is_empty()).then(|| text.to_owned() + &unwritten.join("; "));
        conditions.set(Severity::Warning, DISK, text);
        conditions.set(Severity::Warning, DROPPED, self.dropped_lately());
    }

    fn dropped_lately(&self) -> Option<String> {
        let dropped: Vec<(u64, &Lane)> =
            self.0.lanes.iter().map(|lane| (lane.stats.dropped(), lane)).collect();
        let total = dropped.iter().map(|(points, _)| points).sum();
        let mut last = self.0.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        if total > last.0 {
            *last = (total, Some(Instant::now()));
        }
        last.1.filter(|since| since.elapsed() < DROPPED_FOR)?;
        let lanes = dropped.iter().filter(|(points, _)| *points > 0);
        let lanes: Vec<String> =
            lanes.map(|(points, lane)| format!("{points} for {}", lane.destination.address())).collect();
        Some(format!(
            "points were dropped from queues of the relay since the start: {}; their destinations are \
             unreachable or too slow for the size of the queue, or the disk fails or is nearly full: raise \
             relay.max_bytes, or check the disk",
            lanes.join(", ")
        ))
    }

    /// Ends the relay after sending as much as possible within five seconds. Call this when no more points
    /// are offered.
    pub async fn close(&self) {
        let inner = &self.0;
        inner.lanes.iter().for_each(|lane| lane.inlet.close());
        let writers = std::mem::take(&mut *inner.writers.lock().unwrap_or_else(PoisonError::into_inner));
        let joined = tokio::task::spawn_blocking(move || writers.into_iter().for_each(|w| drop(w.join())));
        let _ = joined.await;
        inner.is_last.cancel();
        inner.senders.close();
        if timeout(DRAIN_MAX, inner.senders.wait()).await.is_err() {
            inner.stop.cancel();
            inner.senders.wait().await;
        }
        for balance in self.balances().iter().filter(|balance| balance.waiting > 0) {
            tracing::info!(
                destination = balance.destination,
                points = balance.waiting,
                "points for a destination of the relay wait on disk; they are sent after the next start"
            );
        }
    }
}

impl Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lanes.iter().map(|lane| &lane.destination)).finish()
    }
}

impl Lane {
    fn open(
        destination: Destination,
        dir: &Path,
        bytes_max: u64,
        parts: &RelayParts<'_>,
    ) -> io::Result<(Self, Writer)> {
        let (queue, found) = Queue::open(dir, bytes_max)?;
        let stats = Stats::new(parts.registry, &destination.address());
        stats.recovered.add(found.waiting);
        if found.surplus_bytes > 0 {
            tracing::warn!(
                destination = destination.address(),
                bytes = found.surplus_bytes,
                "files of the relay in {} end in the middle of a write or are damaged; the bytes after that are not sent",
                dir.display()
            );
        }
        let damage = Damage::of(parts.registry);
        if found.missing > 0 {
            let text = format!(
                "{} files of the relay's queue are missing; their points are not sent to {}. Nothing has to be done",
                found.missing,
                destination.address()
            );
            damage.found(dir, text);
        }
        if found.is_note_lost {
            let text = "the record of what the relay has sent is damaged, so everything in the queue is \
                        sent again, \
                        which changes nothing at the destination. Nothing has to be done";
            damage.found(&queue.note(), text);
        }
        let (inlet, queue) = (Arc::<Inlet>::default(), Arc::new(queue));
        let disk = Arc::<DiskTrouble>::default();
        let writer = Writer {
            destination: destination.address(),
            inlet: Arc::clone(&inlet),
            queue: Arc::clone(&queue),
            stats: stats.clone(),
            trouble: Arc::clone(&disk),
            clock: Arc::clone(&parts.clock),
            min_free_bytes: parts.min_free_bytes,
        };
        Ok((Self { destination, inlet, queue, stats, status: Arc::default(), disk }, writer))
    }

    fn add<'a>(&self, points: impl Iterator<Item = Point<'a>>) {
        let (taken, refused) = self.inlet.add(points);
        self.stats.accepted.add(taken + refused);
        self.stats.dropped_disk.add(refused);
    }

    fn balance(&self) -> Balance {
        let stats = &self.stats;
        Balance {
            destination: self.destination.address(),
            accepted: stats.accepted.get(),
            recovered: stats.recovered.get(),
            sent: stats.sent.get(),
            waiting: self.inlet.held() + self.queue.size().waiting,
            dropped: stats.dropped(),
        }
    }

    fn report(&self, now: i64) {
        let balance = self.balance();
        self.stats.waiting.set(balance.waiting as f64);
        self.stats.bytes.set(self.queue.size().bytes as f64);
        let age = self.queue.oldest().map_or(0, |time| now.saturating_sub(i64::from(time)).max(0));
        self.stats.delay.set(age as f64);
    }

    /// Why the destination accepts no points, as a text for operators.
    fn trouble(&self) -> Option<String> {
        let (since, why) = self.status.trouble()?;
        let text = || {
            let waiting = self.balance().waiting;
            format!("{} accepts no points: {why} ({waiting} points wait)", self.destination.address())
        };
        (since >= AWAY_MIN).then(text)
    }

    /// Why the queue cannot be written.
    fn disk_trouble(&self) -> Option<String> {
        let why = self.disk.get()?;
        Some(format!("{} in {}: {why}", self.destination.address(), self.queue.dir().display()))
    }
}

/// Warns about queues whose destination is not configured, because their points would wait forever.
fn warn_of_others(dir: &Path, lanes: &[Lane]) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let is_known = lanes.iter().any(|lane| lane.queue.dir() == path);
        let has_files = fs::read_dir(&path).is_ok_and(|mut files| files.next().is_some());
        if !is_known && has_files {
            tracing::warn!(
                "{} is the queue of a destination that is not in relay.destinations; configure the destination \
                 again to send its points, or remove the directory",
                path.display()
            );
        }
    }
}
