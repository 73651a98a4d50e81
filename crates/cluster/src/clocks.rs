//! Compares the timestamps of this daemon's rows with the clock of the servers.

use std::time::Duration;

use crate::Member;
use crate::clock_problems::{Behind, ClockProblems, ahead_text, behind_text};

/// How often the clocks are compared.
const COMPARE_EVERY: Duration = Duration::from_secs(4);

impl Member {
    /// Compares our clock with the servers' every few seconds, and notes for the conditions whether ours is ahead or
    /// behind. If it is behind, timestamps are moved by the difference. Never returns.
    pub(crate) async fn compare_clocks(self) {
        let mut behind = Behind::default();
        loop {
            // Read before the request, so that a slow answer does not make our clock look ahead.
            let clock_ms = self.clock().now_ms();
            match self.store().server_clock_ms().await {
                Ok(server_ms) => {
                    // Read again after the request, so that a slow answer does not make our clock look
                    // behind.
                    let lag_ms = behind.note(server_ms - self.clock().now_ms());
                    self.timestamps().set_lag(lag_ms);
                    self.store().set_lag(lag_ms);
                    let rows_ms = self.timestamps().last_us() / 1000;
                    let ahead = ahead_text(clock_ms - server_ms, rows_ms - server_ms);
                    *self.clock_problems() = ClockProblems { ahead, behind: behind_text(lag_ms) };
                }
                Err(error) => tracing::debug!(%error, "cannot compare the clocks"),
            }
            tokio::time::sleep(COMPARE_EVERY).await;
        }
    }
}
