//! The thread that does the queue's housekeeping.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::lock;
use super::shared::Shared;
use crate::SpoolError;

/// Time between two runs: gauges, expiry, and opening again after a failure.
const EVERY: Duration = Duration::from_millis(500);

/// A running thread. Dropping this ends it.
pub(super) struct Background(Mutex<Option<Running>>);

struct Running {
    /// Never sent to. The thread ends once this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the system cannot start a thread.
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self, SpoolError> {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("spool".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    shared.housekeeping();
                }
                // A failure was logged and counted where it occurred.
                let _ = shared.sync();
            })
            .map_err(|error| SpoolError::unavailable(format!("its thread does not start: {error}")))?;
        Ok(Self(Mutex::new(Some(Running { stop, thread }))))
    }

    /// Ends the thread, which syncs once more.
    pub(super) fn stop(&self) {
        if let Some(Running { stop, thread }) = lock(&self.0).take() {
            drop(stop);
            // The panic hook has reported a panic already.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}
