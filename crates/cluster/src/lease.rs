//! Leases of maintenance jobs, renewed while a job runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumbago_model::Clock;
use plumbago_store::{ErrorKind, Lease, SharedStore, StoreError};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::host;

/// How long a lease lasts after its last renewal, if its holder was killed. Shorter than the restart of a
/// daemon, which can then take the lease again.
const TTL: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// No job runs while our clock is ahead of the servers' by more than this, in milliseconds. A job would treat metrics as
/// expired that are not, and its deletions would win over rows that others write now. Half of the default of
/// `maintenance.grace`.
const AHEAD_MAX_MS: i64 = 300_000;

/// Takes leases, so that only one daemon at a time runs a job. If the store has no leases, every daemon runs
/// it.
#[derive(Debug)]
pub struct LeaseKeeper {
    store: Arc<dyn SharedStore>,
    clock: Arc<dyn Clock>,
    held: Mutex<HashMap<String, Held>>,
}

#[derive(Debug)]
struct Held {
    done: CancellationToken,
    renewal: JoinHandle<()>,
}

impl LeaseKeeper {
    /// Makes a keeper that takes leases from `store`.
    pub fn new(store: Arc<dyn SharedStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, held: Mutex::default() }
    }

    /// Takes the lease of a job and renews it until [`LeaseKeeper::release`]. Returns `false` if another
    /// daemon has it. Cancels `lost` if the lease cannot be renewed in time; the job must stop then.
    ///
    /// # Errors
    /// If our clock is far ahead of the servers', or if the store fails or does not answer. In the latter cases the
    /// lease may have been taken; it is not renewed, and expires.
    pub async fn take(&self, job: &str, lost: &CancellationToken) -> Result<bool, StoreError> {
        self.check_clock().await?;
        if !self.store.shared_features().await?.leases {
            return Ok(true);
        }
        let Some(lease) = self.store.take_lease(&format!("maintenance/{job}"), &host(), TTL).await? else {
            return Ok(false);
        };
        let done = CancellationToken::new();
        let renewal = tokio::spawn(renew(lease, done.clone(), lost.clone()));
        self.lock().insert(job.to_owned(), Held { done, renewal });
        Ok(true)
    }

    async fn check_clock(&self) -> Result<(), StoreError> {
        // Our clock is read before the request, so that a slow answer does not make it look ahead.
        let now_ms = self.clock.now_ms();
        let ahead_ms = now_ms - self.store.server_clock_ms().await?;
        if ahead_ms <= AHEAD_MAX_MS {
            return Ok(());
        }
        let seconds = ahead_ms / 1000;
        let operation = format!(
            "run a maintenance job: the clock of this machine is {seconds} s ahead of the server's, so metrics could \
             wrongly count as expired; set it right, e.g. by NTP"
        );
        Err(StoreError::new(ErrorKind::Unavailable, operation))
    }

    /// Releases the lease of a job, if it is held.
    pub async fn release(&self, job: &str) {
        let held = self.lock().remove(job);
        if let Some(Held { done, renewal }) = held {
            done.cancel();
            let _ = renewal.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews a lease until `done`, then releases it. Cancels `lost` when another daemon has the lease or could
/// take it before the next renewal.
async fn renew(lease: Box<dyn Lease>, done: CancellationToken, lost: CancellationToken) {
    let mut renewed = Instant::now();
    while done.run_until_cancelled(tokio::time::sleep(RENEW_EVERY)).await.is_some() {
        let asked = Instant::now();
        match lease.renew().await {
            Ok(true) => renewed = asked,
            Err(error) if renewed.elapsed() < TTL - RENEW_EVERY => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to renew the lease of a maintenance job; retrying"
                );
            }
            _ => {
                tracing::warn!("the lease of a maintenance job was lost; the job stops and continues later");
                return lost.cancel();
            }
        }
    }
    if let Err(error) = lease.release().await {
        tracing::debug!(error = &error as &dyn std::error::Error, "lease not released, it expires by itself");
    }
}
