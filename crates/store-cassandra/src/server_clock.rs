//! The servers' clock, as of the last comparison with it. The servers decide by it when a row expires.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The servers' clock. Clones share the last comparison.
#[derive(Debug, Default, Clone)]
pub(crate) struct ServerClock(Arc<Mutex<Option<(i64, Instant)>>>);

impl ServerClock {
    /// Notes that the clock showed `now_ms` (milliseconds since the epoch) a moment ago.
    pub(crate) fn note(&self, now_ms: i64) {
        *self.lock() = Some((now_ms, Instant::now()));
    }

    /// The time by which rows expire, in seconds since the epoch: `now` of this machine's clock, but no later than the
    /// servers' clock. If ours is ahead, rows that wait would otherwise count as expired and be dropped.
    pub(crate) fn limit(&self, now: i64) -> i64 {
        let Some((then_ms, at)) = *self.lock() else { return now };
        let passed_ms = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        now.min(then_ms.saturating_add(passed_ms).div_euclid(1000))
    }

    fn lock(&self) -> MutexGuard<'_, Option<(i64, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_is_held_back_and_others_are_not() {
        let clock = ServerClock::default();
        assert_eq!(clock.limit(5000), 5000, "not compared yet");
        clock.clone().note(1_000_000);
        assert_eq!(clock.limit(900), 900);
        // The test may take a while.
        assert!((1000..5000).contains(&clock.limit(5000)));
    }
}
