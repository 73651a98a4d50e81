//! Not faster than told.

use std::time::{Duration, Instant};

/// Rows in a second.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: u32,
    /// When the next rows are due.
    due: Instant,
}

impl Rate {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, due: Instant::now() }
    }

    /// Waits until so many rows more are due.
    pub(crate) async fn take(&mut self, rows: usize) {
        if self.per_second == 0 {
            return;
        }
        let wait = self.due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        // What was not used before is not made up for.
        let from = self.due.max(Instant::now());
        self.due = from + Duration::from_secs_f64(rows as f64 / f64::from(self.per_second));
    }
}
