//! The thread that syncs and keeps house.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{JournalError, SyncPolicy, lock};

/// How often house is kept: gauges, and opening again after a failure.
const CARE: Duration = Duration::from_millis(500);

/// What there is to be done. Failures are logged, counted and kept by whoever does it.
pub(crate) trait Chores: Send + Sync + 'static {
    /// Makes what was taken survive power loss.
    fn sync(&self);
    /// Keeps house.
    fn care(&self);
}

pub(crate) struct Background {
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Stop {
    wanted: Mutex<bool>,
    changed: Condvar,
}

impl Background {
    /// Starts the thread of the journal or of the spool.
    pub(crate) fn start(
        name: &str,
        chores: Arc<impl Chores>,
        sync: SyncPolicy,
    ) -> Result<Self, JournalError> {
        let stop = Arc::new(Stop::default());
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn({
                let stop = stop.clone();
                move || run(&*chores, sync, &stop)
            })
            .map_err(|error| JournalError::failed(format!("start the {name}'s thread"), error))?;
        Ok(Self { stop, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread; it syncs once more.
    pub(crate) fn stop(&self) {
        *lock(&self.stop.wanted) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic in it was printed already.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Stop {
    /// Waits until `moment`; true when the thread shall end.
    fn wait_until(&self, moment: Instant) -> bool {
        let mut wanted = lock(&self.wanted);
        while !*wanted {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            wanted = self.changed.wait_timeout(wanted, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *wanted
    }
}

fn run(chores: &impl Chores, sync: SyncPolicy, stop: &Stop) {
    let mut care_at = Instant::now() + CARE;
    let mut sync_at = next_sync(sync);
    loop {
        let next = sync_at.map_or(care_at, |at| at.min(care_at));
        if stop.wait_until(next) {
            break;
        }
        let now = Instant::now();
        if sync_at.is_some_and(|at| at <= now) {
            chores.sync();
            sync_at = next_sync(sync);
        }
        if care_at <= now {
            chores.care();
            care_at = Instant::now() + CARE;
        }
    }
    chores.sync();
}

fn next_sync(sync: SyncPolicy) -> Option<Instant> {
    match sync {
        SyncPolicy::Off => None,
        SyncPolicy::Every(interval) => Instant::now().checked_add(interval),
    }
}
