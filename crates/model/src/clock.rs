//! Time as a parameter, so that tests and simulations can set it.

use std::fmt::Debug;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A source of the current time.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;

    /// Milliseconds since an unspecified moment before the first call. Used to measure periods: it never goes
    /// back, and setting the wall clock does not change it.
    fn steady_ms(&self) -> i64;

    /// Whole seconds since the Unix epoch.
    fn now(&self) -> i64 {
        self.now_ms().div_euclid(1000)
    }
}

/// The machine's wall clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(_) => 0,
        }
    }

    fn steady_ms(&self) -> i64 {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        i64::try_from(START.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock that shows the same time until it is set.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: AtomicI64,
    steady_ms: AtomicI64,
}

impl ManualClock {
    /// Makes a clock that shows `seconds` since the epoch.
    pub fn at(seconds: i64) -> Self {
        let ms = || AtomicI64::new(seconds * 1000);
        Self { now_ms: ms(), steady_ms: ms() }
    }

    /// Sets the clock to `seconds` since the epoch. If that is later than now, the steady clock advances by
    /// the same time.
    pub fn set(&self, seconds: i64) {
        let before = self.now_ms.swap(seconds * 1000, Ordering::Relaxed);
        self.steady_ms.fetch_add((seconds * 1000 - before).max(0), Ordering::Relaxed);
    }

    /// Moves the clock forward by `seconds`.
    pub fn advance(&self, seconds: i64) {
        self.now_ms.fetch_add(seconds * 1000, Ordering::Relaxed);
        self.steady_ms.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    /// Moves the wall clock forward (or back, if negative) by `seconds`; the steady clock does not change.
    pub fn jump(&self, seconds: i64) {
        self.now_ms.fetch_add(seconds * 1000, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn steady_ms(&self) -> i64 {
        self.steady_ms.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_put_right_measures_the_time_that_has_passed() {
        let clock = ManualClock::at(100);
        clock.advance(5);
        clock.set(110);
        clock.jump(3600);
        assert_eq!((clock.now(), clock.steady_ms()), (3710, 110_000));
        clock.set(50);
        assert_eq!((clock.now(), clock.steady_ms()), (50, 110_000));
        let first = SystemClock.steady_ms();
        assert!(first >= 0 && SystemClock.steady_ms() >= first);
    }
}
