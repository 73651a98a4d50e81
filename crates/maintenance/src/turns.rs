//! Leases inside one process. The schedule and requested jobs take the same leases, so one waits until the
//! other has ended.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::StoreError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::schedule::JobLease;

/// Takes a lease only when no other run of this process has it.
#[derive(Debug)]
pub struct Turns {
    outer: Arc<dyn JobLease>,
    held: Mutex<HashSet<String>>,
    released: Notify,
}

impl Turns {
    /// A run first waits for its turn in this process, and then takes the lease of `outer`, which counts for
    /// other processes too.
    pub fn new(outer: Arc<dyn JobLease>) -> Self {
        Self { outer, held: Mutex::default(), released: Notify::new() }
    }

    fn try_hold(&self, job: &str) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(job.to_owned())
    }

    fn let_go(&self, job: &str) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(job);
        self.released.notify_waiters();
    }
}

#[boxed_futures]
impl JobLease for Turns {
    async fn take(&self, job: &str, lost: &CancellationToken) -> Result<bool, StoreError> {
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if self.try_hold(job) {
                break;
            }
            if lost.run_until_cancelled(released).await.is_none() {
                return Ok(false);
            }
        }
        let taken = self.outer.take(job, lost).await;
        if !matches!(taken, Ok(true)) {
            self.let_go(job);
        }
        taken
    }

    async fn release(&self, job: &str) {
        self.outer.release(job).await;
        self.let_go(job);
    }
}
