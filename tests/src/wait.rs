//! Waiting for something to happen. The guard is against hanging for ever, not a speed limit.

use std::time::{Duration, Instant};

/// How long anything may take before the test is called hung.
pub const HANG: Duration = Duration::from_secs(240);

/// Polls until `ready` gives a value; panics with `what` after minutes.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < HANG, "hung while waiting for {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Polls until `ready` is true; panics with `what` after minutes.
pub fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    wait_for(what, || ready().then_some(()));
}
