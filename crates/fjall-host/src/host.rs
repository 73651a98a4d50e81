//! Holds a database open, and reopens it after a failed write or sync.
//!
//! After a failure, writes and syncs are refused and reads continue. Once the disk accepts a synced write
//! again, the database is reopened. Reopening rewrites the newest log ([`crate::log`]), so that no data lost
//! by the failed sync counts as durable. If the newest acknowledged commit is missing from the reopened
//! database, all access is refused until the process is restarted, because only a start replays the journal.
//! The reasons are in `docs/decisions/failed-sync.md`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use fjall::{Database, PersistMode};
use plumbago_telemetry::{Counter, Damage, Gauge, Registry};

use crate::open::{Opened, open};
use crate::{HostError, Repair, Settings, error};

/// How long reopening waits for operations that still use the old database.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Minimum time between two attempts to reopen.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

/// An open database with its keyspaces, and any state that a user of this crate keeps with them.
pub trait Contents: Send + Sync {
    /// The database.
    fn database(&self) -> &Database;

    /// Sets whether the database is about to be closed. If so, long reads should end early.
    fn set_closing(&self, _closing: bool) {}
}

/// Holds a database open, and replaces it with a reopened one after a failure.
pub struct Host<T> {
    settings: Settings,
    /// `None` before the first opening, while reopening fails, and after [`Host::close`].
    slot: RwLock<Option<Arc<T>>>,
    closed: AtomicBool,
    was_open: AtomicBool,
    /// Whether the database accepts no writes until it is reopened.
    broken: AtomicBool,
    /// Whether acknowledged commits are missing from the reopened database.
    lost: AtomicBool,
    /// The number of the newest commit that was acknowledged.
    acknowledged: AtomicU64,
    last_attempt: Mutex<Option<Instant>>,
    trouble: Mutex<Option<String>>,
    metrics: Metrics,
    damage: Damage,
}

struct Metrics {
    sync_errors: Counter,
    reopened: Counter,
    torn_logs: Counter,
    healthy: Gauge,
}

/// A newly opened database that is not in use yet. [`Opening::finish`] makes it the one in use. Dropping this
/// value closes the database.
pub struct Opening<'a, T> {
    host: &'a Host<T>,
    slot: RwLockWriteGuard<'a, Option<Arc<T>>>,
    opened: Opened,
}

impl<T: Contents> Host<T> {
    /// Creates a host without an open database. [`Host::begin`] opens one. `prefix` is the start of the names
    /// of the host's self-metrics, for example `plumbago_store`.
    pub fn new(settings: Settings, prefix: &str, registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| registry.counter(&format!("{prefix}_{name}"), help, &[]);
        let metrics = Metrics {
            sync_errors: counter("sync_errors_total", "syncs to disk that failed"),
            reopened: counter(
                "reopened_total",
                "times the database was opened again, mostly after a failure",
            ),
            torn_logs: counter("torn_tails_total", "log files cut at a hole that a power cut had left"),
            healthy: registry.gauge(&format!("{prefix}_healthy"), "1 while the database accepts writes", &[]),
        };
        metrics.healthy.set(1.0);
        Self {
            settings,
            slot: RwLock::new(None),
            closed: AtomicBool::new(false),
            was_open: AtomicBool::new(false),
            broken: AtomicBool::new(true),
            lost: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            last_attempt: Mutex::default(),
            trouble: Mutex::default(),
            metrics,
            damage: Damage::of(registry),
        }
    }

    /// The list of damage that this host reports to.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// The directory of the database.
    pub fn dir(&self) -> &Path {
        &self.settings.dir
    }

    /// The database for reading. After a failed write this is still the old one, until it is reopened.
    ///
    /// # Errors
    /// [`HostError::Closed`] after [`Host::close`], [`HostError::Broken`] or [`HostError::Lost`] if no
    /// database is open.
    pub fn get(&self) -> Result<Arc<T>, HostError> {
        match &*read(&self.slot) {
            Some(contents) => Ok(contents.clone()),
            None => Err(self.refusal()),
        }
    }

    /// The database for writing.
    ///
    /// # Errors
    /// [`HostError::Closed`] after [`Host::close`]; [`HostError::Broken`] after a failed write or sync, until
    /// the database is reopened; [`HostError::Lost`] if acknowledged commits were missing after that.
    pub fn get_to_write(&self) -> Result<Arc<T>, HostError> {
        if self.is_broken() { Err(self.refusal()) } else { self.get() }
    }

    /// Whether writes are refused, until [`Host::begin`] has reopened the database.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Why writes are refused. `None` while they are accepted.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// Records a failed write. Writes are refused until the database is reopened.
    pub fn write_failed(&self, reason: &dyn std::fmt::Display) {
        if !self.broken.swap(true, Ordering::AcqRel) {
            self.set_trouble(format!(
                "writing to {} failed; nothing more is written until it works again: {reason}",
                self.dir().display()
            ));
            tracing::error!(dir = %self.dir().display(), %reason, "a write failed; the database refuses writes until it is reopened");
        }
    }

    /// Makes the next [`Host::begin`] reopen the database even though it is healthy.
    pub fn renew(&self) {
        self.broken.store(true, Ordering::Release);
        *lock(&self.last_attempt) = None;
    }

    /// Records that a commit was acknowledged. Commit numbers increase in the order of commits, across
    /// restarts too.
    pub fn committed(&self, number: u64) {
        self.acknowledged.fetch_max(number, Ordering::AcqRel);
    }

    /// The number of the newest commit that was acknowledged since the process started. 0 if there was none.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Makes everything written to `contents` so far survive power loss.
    ///
    /// # Errors
    /// [`HostError::SyncFailed`] if the disk reports an error: nothing written since the last successful sync
    /// is durable. [`HostError::Broken`] if an earlier write or sync failed. The database must be reopened in
    /// both cases. [`HostError::Closed`] and [`HostError::Lost`] as in [`Host::get_to_write`].
    pub fn sync(&self, contents: &T, mode: PersistMode) -> Result<(), HostError> {
        if self.is_broken() {
            return Err(self.refusal());
        }
        let Err(error) = contents.database().persist(mode) else { return Ok(()) };
        if !matches!(error, fjall::Error::Poisoned) {
            self.metrics.sync_errors.add(1);
        }
        self.broken.store(true, Ordering::Release);
        let failure = HostError::SyncFailed { path: self.dir().to_owned(), reason: error::text(&error) };
        self.set_trouble(failure.to_string());
        tracing::error!(
            dir = %self.dir().display(), error = error::text(&error),
            "syncing to disk failed; nothing written since the last successful sync counts as durable"
        );
        Err(failure)
    }

    /// Opens the database, or reopens it after a failure. Returns `None` if it is open and accepts writes.
    ///
    /// # Errors
    /// [`HostError::Broken`] if the last attempt was less than a second ago, the disk does not accept a
    /// synced write, or the old database is still in use; reads of the old database continue in these cases.
    /// [`HostError::Closed`] after [`Host::close`], [`HostError::Lost`] if acknowledged commits are missing.
    /// Any other error comes from opening the database.
    pub fn begin(&self) -> Result<Option<Opening<'_, T>>, HostError> {
        let mut slot = write(&self.slot);
        if self.closed.load(Ordering::Acquire) {
            return Err(self.refusal());
        }
        if !self.is_broken() {
            return Ok(None);
        }
        if self.lost.load(Ordering::Acquire) {
            return Err(self.refusal());
        }
        let mut last = lock(&self.last_attempt);
        if last.is_some_and(|last| last.elapsed() < REOPEN_EVERY) {
            return Err(self.refusal());
        }
        *last = Some(Instant::now());
        drop(last);
        if slot.is_some()
            && let Err(error) = probe(self.dir())
        {
            let reason = format!("{} does not accept synced writes: {error}", self.dir().display());
            self.set_trouble(reason);
            return Err(self.refusal());
        }
        if let Some(old) = slot.take()
            && let Err(old) = drain(old)
        {
            *slot = Some(old);
            return Err(self.refusal());
        }
        let opened = open(&self.settings).inspect_err(|error| self.set_trouble(error.to_string()))?;
        for mended in &opened.found {
            self.damage.found(&mended.path, mended.text.as_str());
        }
        Ok(Some(Opening { host: self, slot, opened }))
    }

    /// Closes the database. Returns `false` if it is still in use after half a minute. In that case it is
    /// closed when its last user drops it.
    pub fn close(&self) -> bool {
        self.closed.store(true, Ordering::Release);
        write(&self.slot).take().is_none_or(|contents| drain(contents).is_ok())
    }

    fn refusal(&self) -> HostError {
        let path = self.dir().to_owned();
        if self.closed.load(Ordering::Acquire) {
            return HostError::Closed { path };
        }
        if self.lost.load(Ordering::Acquire) {
            return HostError::Lost { path };
        }
        let reason = self.trouble().unwrap_or_else(|| "it is being opened again".to_owned());
        HostError::Broken { path, reason }
    }

    fn set_trouble(&self, reason: String) {
        *lock(&self.trouble) = Some(reason);
        self.metrics.healthy.set(0.0);
    }
}

impl<T: Contents> Opening<'_, T> {
    /// The opened database.
    pub fn database(&self) -> &Database {
        &self.opened.database
    }

    /// How the newest log was repaired. `None` if power loss had not damaged it.
    pub fn repaired(&self) -> Option<&Repair> {
        self.opened.repaired.as_ref()
    }

    /// Starts to use the opened database. `newest_commit` is the number of the newest commit found in it.
    ///
    /// # Errors
    /// [`HostError::Lost`] if acknowledged commits are missing.
    pub fn finish(mut self, contents: T, newest_commit: u64) -> Result<Arc<T>, HostError> {
        let host = self.host;
        host.metrics.torn_logs.add(u64::from(self.opened.repaired.is_some()));
        let acknowledged = host.acknowledged.load(Ordering::Acquire);
        if newest_commit < acknowledged {
            host.lost.store(true, Ordering::Release);
            let error = HostError::Lost { path: host.dir().to_owned() };
            tracing::error!(newest_commit, acknowledged, "{error}");
            host.set_trouble(error.to_string());
            return Err(error);
        }
        let first = !host.was_open.swap(true, Ordering::AcqRel);
        let contents = Arc::new(contents);
        *self.slot = Some(contents.clone());
        host.broken.store(false, Ordering::Release);
        lock(&host.trouble).take();
        host.metrics.healthy.set(1.0);
        if !first {
            host.metrics.reopened.add(1);
            tracing::info!(dir = %host.dir().display(), "opened the database again");
        }
        Ok(contents)
    }
}

/// Checks that the disk accepts a synced write.
fn probe(dir: &Path) -> std::io::Result<()> {
    let path: PathBuf = dir.join("plumbago-probe");
    let probed = File::create(&path).and_then(|mut file| {
        file.write_all(&[1; 4096])?;
        file.sync_all()
    });
    let removed = std::fs::remove_file(&path);
    probed.and(removed)
}

/// Drops the database once it has no other users, which releases its lock. Returns it if they do not finish
/// in time.
fn drain<T: Contents>(contents: Arc<T>) -> Result<(), Arc<T>> {
    contents.set_closing(true);
    let start = Instant::now();
    while Arc::strong_count(&contents) > 1 {
        if start.elapsed() > DRAIN_MAX {
            contents.set_closing(false);
            return Err(contents);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(contents);
    Ok(())
}

// The guarded values are only ever replaced completely, so they stay valid if a thread panics.

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
