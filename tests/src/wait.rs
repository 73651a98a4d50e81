//! Waits for a condition. No test waits for a fixed time: the only limit is a timeout of minutes for a test
//! that hangs.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long a condition may take before the test counts as hung.
pub const HANG: Duration = Duration::from_secs(240);

/// The first and the longest pause between two checks of a condition.
const PAUSES: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(50));

/// Polls until `ready` returns a value. Panics with `what` after [`HANG`].
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    wait_ok(what, || ready().ok_or("it did not happen"))
}

/// Polls until `ready` is true. Panics with `what` after [`HANG`].
pub fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    wait_for(what, || ready().then_some(()));
}

/// Polls until `ready` succeeds. Panics with `what` and the last error after [`HANG`].
pub fn wait_ok<T, E: Display>(what: &str, mut ready: impl FnMut() -> Result<T, E>) -> T {
    let mut pauses = Pauses::new();
    loop {
        match ready() {
            Ok(value) => return value,
            Err(error) => std::thread::sleep(pauses.next(what, &error)),
        }
    }
}

/// Polls until `ready` is true, for tests on tokio. Panics with `what` after [`HANG`].
pub async fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let mut pauses = Pauses::new();
    while !ready() {
        tokio::time::sleep(pauses.next(what, "it did not happen")).await;
    }
}

/// The growing pauses between checks, up to the timeout [`HANG`].
struct Pauses {
    started: Instant,
    next: Duration,
}

impl Pauses {
    fn new() -> Self {
        Self { started: Instant::now(), next: PAUSES.0 }
    }

    fn next(&mut self, what: &str, state: impl Display) -> Duration {
        assert!(self.started.elapsed() < HANG, "hung while waiting for {what}: {state}");
        let pause = self.next;
        self.next = (pause * 2).min(PAUSES.1);
        pause
    }
}
