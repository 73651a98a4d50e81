//! A limit on rows per second.

use std::time::{Duration, Instant};

/// Spaces out reads so that at most `per_second` rows are read; 0 means no limit.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: u32,
    /// When the next rows may be read.
    due: Instant,
}

impl Rate {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, due: Instant::now() }
    }

    /// The largest number of items that a step should take at once, so that no step lasts much longer than a
    /// second.
    pub(crate) fn step(&self, most: usize) -> usize {
        match self.per_second {
            0 => most,
            limit => most.min(limit as usize),
        }
    }

    /// Waits until rows may be read again, and accounts for `rows` of them.
    pub(crate) async fn take(&mut self, rows: usize) {
        if self.per_second == 0 {
            return;
        }
        let wait = self.due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        // Time that was not used earlier is lost: it must not permit a burst.
        let from = self.due.max(Instant::now());
        self.due = from + Duration::from_secs_f64(rows as f64 / f64::from(self.per_second));
    }
}
