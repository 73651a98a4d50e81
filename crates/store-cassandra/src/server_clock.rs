//! The servers' clock, as of the last comparison with it. The servers decide by it when a row expires, and daemons whose
//! own clocks differ agree on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use plumbago_model::Clock;

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
        self.now_ms().map_or(now, |servers_ms| now.min(servers_ms.div_euclid(1000)))
    }

    /// What it shows now, in milliseconds since the epoch; `None` before the first comparison.
    fn now_ms(&self) -> Option<i64> {
        let (then_ms, at) = (*self.lock())?;
        let passed_ms = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        Some(then_ms.saturating_add(passed_ms))
    }

    fn lock(&self) -> MutexGuard<'_, Option<(i64, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that all daemons agree on: the servers' clock, and this machine's until the first comparison.
#[derive(Debug)]
pub(crate) struct AgreedClock {
    servers: ServerClock,
    own: Arc<dyn Clock>,
}

impl AgreedClock {
    pub(crate) fn new(servers: ServerClock, own: Arc<dyn Clock>) -> Self {
        Self { servers, own }
    }
}

impl Clock for AgreedClock {
    fn now_ms(&self) -> i64 {
        self.servers.now_ms().unwrap_or_else(|| self.own.now_ms())
    }

    fn steady_ms(&self) -> i64 {
        self.own.steady_ms()
    }
}

#[cfg(test)]
mod tests {
    use plumbago_model::ManualClock;

    use super::*;

    #[test]
    fn daemons_agree_on_the_servers_clock() {
        let (servers, own) = (ServerClock::default(), Arc::new(ManualClock::at(5000)));
        let agreed = AgreedClock::new(servers.clone(), own);
        assert_eq!(agreed.now(), 5000, "not compared yet");
        servers.note(1_000_000);
        // The test may take a while.
        assert!((1000..5000).contains(&agreed.now()));
    }

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
