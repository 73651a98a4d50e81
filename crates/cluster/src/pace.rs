//! Limits the total rate of requests about names by the background tasks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Average number of requests a second. A call sends all its requests at once, but there are never a thousand
/// or more in a second.
const RATE: u32 = 600;

/// Number of names that are looked up in one call.
pub(crate) const AT_ONCE: usize = 100;
/// Number of names that are created again in one call.
pub(crate) const CREATED_AT_ONCE: usize = 50;

/// The kind of work, with its number of requests per name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// One read.
    LookUp = 1,
    /// One read and at most one write.
    Note = 2,
    /// Reads of the metric and its directory, and a write.
    Create = 5,
}

/// When the next requests may be sent.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<Instant>);

impl Pace {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// Waits until the requests for this many names may be sent, by the kind of work.
    pub(crate) async fn wait(&self, names: usize, work: Work) {
        let requests = u32::try_from(names).unwrap_or(u32::MAX).saturating_mul(work as u32);
        let start = {
            let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let start = (*next).max(Instant::now());
            *next = start + Duration::from_secs(1) / RATE * requests;
            start
        };
        tokio::time::sleep_until(start).await;
    }
}
