//! A limit on rows or bytes per second.

use std::thread;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// How often a blocking wait looks whether the run was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Spaces out reads so that at most `per_second` rows or bytes are read; 0 means no limit.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: u64,
    /// When the next rows may be read.
    due: Instant,
}

impl Rate {
    pub(crate) fn new(per_second: impl Into<u64>) -> Self {
        Self { per_second: per_second.into(), due: Instant::now() }
    }

    /// The largest number of items that a step should take at once, so that no step lasts much longer than a
    /// second.
    pub(crate) fn step(&self, most: usize) -> usize {
        match self.per_second {
            0 => most,
            limit => most.min(usize::try_from(limit).unwrap_or(usize::MAX)),
        }
    }

    /// Waits until rows may be read again, and accounts for `rows` of them.
    pub(crate) async fn take(&mut self, rows: usize) {
        if self.per_second == 0 {
            return;
        }
        let wait = self.wait();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        self.account(rows as u64);
    }

    /// Accounts for `bytes` that were read, and blocks until more may be read, or until `stop` is cancelled.
    pub(crate) fn take_blocking(&mut self, bytes: u64, stop: &CancellationToken) {
        if self.per_second == 0 {
            return;
        }
        self.account(bytes);
        while !stop.is_cancelled() && !self.wait().is_zero() {
            thread::sleep(self.wait().min(LOOK_EVERY));
        }
    }

    fn wait(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    fn account(&mut self, amount: u64) {
        // Time that was not used earlier is lost: it must not permit a burst.
        let from = self.due.max(Instant::now());
        self.due = from + Duration::from_secs_f64(amount as f64 / self.per_second as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_spaces_out_reads() {
        let (began, stop) = (Instant::now(), CancellationToken::new());
        let mut rate = Rate::new(1000_u32);
        rate.take_blocking(20, &stop);
        rate.take_blocking(30, &stop);
        assert!(began.elapsed() >= Duration::from_millis(50));
        // A cancelled run does not wait.
        stop.cancel();
        rate.take_blocking(1 << 40, &stop);
        let mut free = Rate::new(0_u32);
        free.take_blocking(u64::MAX, &CancellationToken::new());
    }
}
