//! The timestamps of changes of names. Of two changes, the one with the later timestamp wins.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use scylla::policies::timestamp_generator::TimestampGenerator;

/// The last change of names by an earlier process may be this much later than its last known timestamp, in
/// microseconds. Rows of points are committed at least this often.
const UNKNOWN_US: i64 = 300_000_000;

/// Gives timestamps: the current time, but always later than the last one. Clones share the last one.
#[derive(Debug, Default, Clone)]
pub(crate) struct Timestamps(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    last_us: AtomicI64,
    /// How far this machine's clock is behind the servers', in microseconds.
    lag_us: AtomicI64,
}

impl Timestamps {
    /// Continues after an earlier process that gave timestamps up to about `last_us` (microseconds since the epoch).
    /// This has an effect only if `last_us` is in the future: then the clock was ahead, and changes by this process
    /// would lose against those of the earlier one.
    pub(crate) fn continue_after(&self, last_us: i64) {
        if last_us > now_us() {
            self.0.last_us.fetch_max(last_us.saturating_add(UNKNOWN_US), Ordering::Relaxed);
        }
    }

    /// Sets how far this machine's clock is behind the servers', in milliseconds. Without it, changes by this process
    /// would lose against earlier ones of other daemons.
    pub(crate) fn set_lag(&self, ms: i64) {
        self.0.lag_us.store(ms.saturating_mul(1000), Ordering::Relaxed);
    }
}

impl TimestampGenerator for Timestamps {
    fn next_timestamp(&self) -> i64 {
        let now = now_us().saturating_add(self.0.lag_us.load(Ordering::Relaxed));
        let next = |last: i64| now.max(last.saturating_add(1));
        next(self.0.last_us.update(Ordering::Relaxed, Ordering::Relaxed, next))
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_continue_after_those_of_a_clock_that_was_ahead() {
        let timestamps = Timestamps::default();
        timestamps.continue_after(now_us() - 1);
        let first = timestamps.next_timestamp();
        assert!(first <= now_us(), "a clock that was right changes nothing");
        assert!(timestamps.next_timestamp() > first);
        let ahead = now_us() + 3_600_000_000;
        timestamps.clone().continue_after(ahead);
        let next = timestamps.next_timestamp();
        assert!(next > ahead && timestamps.next_timestamp() == next + 1);
    }

    #[test]
    fn a_clock_that_is_behind_is_helped() {
        let timestamps = Timestamps::default();
        timestamps.clone().set_lag(600_000);
        let first = timestamps.next_timestamp();
        assert!((now_us()..=now_us() + 600_000_000).contains(&first));
        assert!(first > now_us() + 300_000_000, "the test may take a while");
        timestamps.set_lag(0);
        assert!(timestamps.next_timestamp() > first);
    }
}
