//! The journal's background thread, which syncs the files and runs housekeeping.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{JournalError, SyncPolicy, lock};

/// How often housekeeping runs.
const HOUSEKEEPING: Duration = Duration::from_millis(500);

/// The work of the thread. Implementations handle their own failures: they log, count and remember them.
pub(crate) trait Chores: Send + Sync + 'static {
    /// Makes everything written survive power loss.
    fn sync(&self);
    /// Retries failed work, closes old files and updates the gauges.
    fn housekeeping(&self);
}

/// A running thread. Dropping this ends it.
pub(crate) struct Background(Mutex<Option<Running>>);

struct Running {
    /// Nothing is sent to it. The thread ends once this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// `Failed` if the system cannot start a thread.
    pub(crate) fn start(
        name: &str,
        chores: Arc<impl Chores>,
        sync: SyncPolicy,
    ) -> Result<Self, JournalError> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&*chores, sync, &stopped))
            .map_err(|error| JournalError::failed(format!("start the {name}'s thread"), error))?;
        Ok(Self(Mutex::new(Some(Running { stop, thread }))))
    }

    /// Ends the thread after a last sync.
    pub(crate) fn stop(&self) {
        if let Some(Running { stop, thread }) = lock(&self.0).take() {
            drop(stop);
            // If the thread panicked, the panic hook has reported it already.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(chores: &impl Chores, sync: SyncPolicy, stopped: &Receiver<()>) {
    let mut housekeeping_at = Instant::now() + HOUSEKEEPING;
    let mut sync_at = next_sync(sync);
    loop {
        let next = sync_at.map_or(housekeeping_at, |at| at.min(housekeeping_at));
        let wait = next.saturating_duration_since(Instant::now());
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        let now = Instant::now();
        if sync_at.is_some_and(|at| at <= now) {
            chores.sync();
            sync_at = next_sync(sync);
        }
        if housekeeping_at <= now {
            chores.housekeeping();
            housekeeping_at = Instant::now() + HOUSEKEEPING;
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
