//! The last success, the last error and the last deferral of the sender. The sender records them, and the store shows
//! them to operators.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbago_store::{ErrorKind, StoreError};
use plumbago_telemetry::{Throttle, with_causes};

use crate::calls::Call;
use crate::queue::SpoolStats;

const ERROR_LINE_MS: i64 = 10_000;

/// How the sender is doing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SenderStatus {
    /// What the spool holds.
    pub spool: SpoolStats,
    /// Why the last call with new rows failed; `None` once a call has succeeded since, or if the failed call
    /// is deferred because others succeed.
    pub last_error: Option<String>,
    /// Whether the store refused that call because of its content, for example because a table is missing.
    pub is_refused: bool,
    /// Why rows were deferred last; `None` if this process has deferred none.
    pub last_deferral: Option<String>,
    /// Time since the last successful call of this process.
    pub last_success: Option<Duration>,
}

/// State of the sender that the rest of the process reads.
#[derive(Debug)]
pub(crate) struct Health {
    /// The last error, and whether it is a refusal.
    last_error: Mutex<Option<(String, bool)>>,
    last_deferral: Mutex<Option<String>>,
    last_success: Mutex<Option<Instant>>,
    /// Number of successful calls. A failing call compares it with an earlier number to find out whether
    /// others succeed.
    pub(crate) successes: AtomicU64,
    /// The value of `successes` when the sender last began to send after it had nothing to send.
    successes_before: AtomicU64,
    throttle: Throttle,
    /// Limits the log lines about deferred calls.
    deferred: Throttle,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            last_error: Mutex::default(),
            last_deferral: Mutex::default(),
            last_success: Mutex::default(),
            successes: AtomicU64::new(0),
            successes_before: AtomicU64::new(0),
            throttle: Throttle::new(ERROR_LINE_MS),
            deferred: Throttle::new(ERROR_LINE_MS),
        }
    }
}

impl Health {
    pub(crate) fn succeeded(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        *self.last_success.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether the last call with new rows failed, as [`SenderStatus::last_error`].
    pub(crate) fn is_failing(&self) -> bool {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether a call succeeded during the last `period`.
    pub(crate) fn succeeded_within(&self, period: Duration) -> bool {
        let last = *self.last_success.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|at| at.elapsed() < period)
    }

    /// Called when the sender begins to send after it had nothing to send.
    pub(crate) fn begin(&self) {
        self.successes_before.store(self.successes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// A call is deferred. If other calls have succeeded since the sender last began to send, the error
    /// concerns only the deferred rows and is cleared. Otherwise it stays, because nothing shows that the
    /// store still acknowledges any rows.
    pub(crate) fn clear_error(&self) {
        if self.successes.load(Ordering::Relaxed) == self.successes_before.load(Ordering::Relaxed) {
            return;
        }
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Remembers why rows are deferred.
    pub(crate) fn note_deferral(&self, error: &StoreError) {
        *self.last_deferral.lock().unwrap_or_else(PoisonError::into_inner) = Some(with_causes(error));
    }

    pub(crate) fn log_deferred(&self, error: &StoreError, call: &Call) {
        self.note_deferral(error);
        if let Some(suppressed) = self.deferred.pass_now() {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                stage = %call.table.stage, rows = call.rows, suppressed,
                "rows cannot be sent although others can; they are deferred: they stay in the spool and are retried"
            );
        }
    }

    pub(crate) fn failed(&self, error: &StoreError) {
        let text = with_causes(error);
        if let Some(suppressed) = self.throttle.pass_now() {
            tracing::warn!(
                error = text,
                suppressed,
                "rows could not be sent; they stay in the spool and are retried"
            );
        }
        let is_refused = error.kind == ErrorKind::Invalid;
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((text, is_refused));
    }

    pub(crate) fn status(&self, spool: SpoolStats) -> SenderStatus {
        let last_success = *self.last_success.lock().unwrap_or_else(PoisonError::into_inner);
        let last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        SenderStatus {
            spool,
            is_refused: last_error.as_ref().is_some_and(|(_, is_refused)| *is_refused),
            last_error: last_error.map(|(text, _)| text),
            last_deferral: self.last_deferral.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            last_success: last_success.map(|at| at.elapsed()),
        }
    }
}
