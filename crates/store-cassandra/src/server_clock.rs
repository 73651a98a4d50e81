//! The servers' clock, as comparisons with it show. The servers decide by it when a row expires, and daemons whose own
//! clocks differ agree on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use plumbago_model::Clock;

/// The clock is the median of the last comparisons, at most this many. Each asks one server, whose own clock
/// may be wrong.
const COMPARISONS: usize = 15;

/// The servers' clock. Clones share the comparisons.
#[derive(Debug, Clone)]
pub(crate) struct ServerClock(Arc<Mutex<Comparisons>>);

#[derive(Debug)]
struct Comparisons {
    /// The steady clock is the time since then.
    began: Instant,
    /// The servers' clock minus the steady one, in milliseconds, oldest comparison first.
    differences: VecDeque<i64>,
}

// `Instant` has no default.
impl Default for ServerClock {
    fn default() -> Self {
        let comparisons = Comparisons { began: Instant::now(), differences: VecDeque::new() };
        Self(Arc::new(Mutex::new(comparisons)))
    }
}

impl ServerClock {
    /// Notes that a server's clock showed `now_ms` (milliseconds since the epoch) a moment ago.
    pub(crate) fn note(&self, now_ms: i64) {
        let mut comparisons = self.lock();
        let difference = now_ms.saturating_sub(comparisons.steady_ms());
        if comparisons.differences.len() >= COMPARISONS {
            comparisons.differences.pop_front();
        }
        comparisons.differences.push_back(difference);
    }

    /// The time by which rows expire, in seconds since the epoch: `now` of this machine's clock, but no later than the
    /// servers' clock. If ours is ahead, rows that wait would otherwise count as expired and be dropped.
    pub(crate) fn limit(&self, now: i64) -> i64 {
        self.now_ms().map_or(now, |servers_ms| now.min(servers_ms.div_euclid(1000)))
    }

    /// The present time of the servers' clock, in milliseconds since the epoch; `None` before the first comparison.
    fn now_ms(&self) -> Option<i64> {
        let comparisons = self.lock();
        Some(comparisons.median()?.saturating_add(comparisons.steady_ms()))
    }

    fn lock(&self) -> MutexGuard<'_, Comparisons> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Comparisons {
    fn steady_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The median difference, the lower one of two; `None` before the first comparison.
    fn median(&self) -> Option<i64> {
        let mut sorted: Vec<i64> = self.differences.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
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
    fn one_server_that_is_wrong_does_not_move_the_clock() {
        let (servers, own) = (ServerClock::default(), Arc::new(ManualClock::at(5000)));
        let agreed = AgreedClock::new(servers.clone(), own);
        for look in 0..60 {
            servers.note(if look % 3 == 1 { 9_000_000 } else { 1_000_000 });
            // The test may take a while.
            assert!((1000..5000).contains(&agreed.now()), "look {look}: {}", agreed.now());
        }
        // All servers were set right: the clock follows.
        (0..COMPARISONS).for_each(|_| servers.note(9_000_000));
        assert!(agreed.now() >= 9000);
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
