//! Compares the timestamps of this daemon's rows with the clock of the servers.

use std::time::Duration;

use crate::Member;

/// How often the clocks are compared.
const COMPARE_EVERY: Duration = Duration::from_secs(4);
/// A difference above this is reported, in milliseconds.
const TOLERANCE_MS: i64 = 10_000;

impl Member {
    /// Compares our clock with the servers' every few seconds, and notes for the condition whether ours is
    /// ahead. Never returns.
    pub(crate) async fn compare_clocks(self) {
        loop {
            // Read before the request, so that a slow answer does not make our clock look ahead.
            let clock_ms = self.clock().now_ms();
            match self.store().server_clock_ms().await {
                Ok(server_ms) => {
                    let rows_ms = self.timestamps().last_us() / 1000;
                    *self.ahead() = problem(clock_ms - server_ms, rows_ms - server_ms);
                }
                Err(error) => tracing::debug!(%error, "cannot compare the clocks"),
            }
            tokio::time::sleep(COMPARE_EVERY).await;
        }
    }
}

/// Returns what is wrong with the clock and what to do about it. The arguments say how far this machine's
/// clock and the timestamps of rows are ahead of the server's clock, in milliseconds. `None` if both are
/// within the tolerance.
fn problem(clock_ms: i64, rows_ms: i64) -> Option<String> {
    let effect = "rows of this daemon replace rows and deletions of other daemons, even those that are later";
    if clock_ms > TOLERANCE_MS {
        let seconds = clock_ms / 1000;
        return Some(format!(
            "the clock of this machine is {seconds} s ahead of the server's, so {effect}: correct it, for \
             example with NTP"
        ));
    }
    (rows_ms > TOLERANCE_MS).then(|| {
        let seconds = rows_ms / 1000;
        format!(
            "the clock of this machine was ahead: for {seconds} s more, rows get timestamps ahead of the server's \
             clock, so that they replace the earlier rows. Until then {effect}. This ends by itself; keep \
             data_dir, which has the last timestamp"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_is_told_from_one_that_was() {
        assert_eq!(problem(10_000, 10_000), None);
        assert_eq!(problem(-3_600_000, 0), None);
        let is = problem(11_000, 11_000).unwrap();
        assert!(is.contains("is 11 s ahead") && is.contains("NTP"), "{is}");
        let was = problem(-5, 3_600_000).unwrap();
        assert!(was.contains("was ahead: for 3600 s more") && was.contains("keep data_dir"), "{was}");
    }
}
