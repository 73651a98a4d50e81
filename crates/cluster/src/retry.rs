//! The pauses of tasks that retry a failed call.

use std::time::Duration;

/// Pause after a failed call before it is retried.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// While a task is retried, its error is logged once in this time.
pub(crate) const RETRY_LINE_MS: i64 = 60_000;

/// Lengthens or shortens a pause by up to half at random, so that daemons that failed at the same time do not
/// all retry at the same time.
pub(crate) fn with_jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.5))
}
