//! Limits the memory that incomplete large messages of all connections take.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Number of bytes that every connection may use without a lease.
const FREE_BYTES: usize = 64 << 10;

/// How long a connection waits for memory before it is closed.
const WAIT: Duration = Duration::from_secs(10);

/// The share of the memory that a connection has leased, in KiB.
pub(crate) struct Lease<'a> {
    memory: &'a Semaphore,
    held: Option<SemaphorePermit<'a>>,
}

impl<'a> Lease<'a> {
    pub(crate) fn new(memory: &'a Semaphore) -> Self {
        Self { memory, held: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// Grows or shrinks the lease to the size that `bytes` bytes need. Returns false if no memory became free
    /// in time.
    pub(crate) async fn resize(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE_BYTES).div_ceil(1024);
        if wanted == 0 {
            self.held = None;
            return true;
        }
        let held = self.held.as_ref().map_or(0, SemaphorePermit::num_permits);
        if wanted <= held {
            drop(self.held.as_mut().and_then(|permit| permit.split(held - wanted)));
            return true;
        }
        let more = u32::try_from(wanted - held).unwrap_or(u32::MAX);
        let Ok(Ok(more)) = timeout(WAIT, self.memory.acquire_many(more)).await else {
            return false;
        };
        match &mut self.held {
            Some(permit) => permit.merge(more),
            None => self.held = Some(more),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lease_holds_what_is_needed_and_gives_the_rest_back() {
        let memory = Semaphore::new(1000);
        let mut lease = Lease::new(&memory);
        for (bytes, left) in [
            (FREE_BYTES, 1000),
            (FREE_BYTES + 1, 999),
            (FREE_BYTES + (700 << 10), 300),
            (FREE_BYTES + (100 << 10), 900),
            (0, 1000),
        ] {
            assert!(lease.resize(bytes).await);
            assert_eq!((memory.available_permits(), lease.is_empty()), (left, left == 1000), "{bytes}");
        }
        assert!(lease.resize(FREE_BYTES + (1000 << 10)).await);
        let mut other = Lease::new(&memory);
        let wait = tokio::join!(other.resize(FREE_BYTES + 1), async { lease.resize(0).await });
        assert_eq!(wait, (true, true));
    }
}
