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

/// How long a lease lasts after its last renewal, if its holder was killed. It is short, so that a restarted
/// daemon can soon take the lease again.
const TTL: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How often the clock is compared with the elapsed time while a job runs. This asks no server.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// If our clock is ahead of the servers' by more than this, no job runs, in milliseconds. The job would
/// delete metrics that have not expired, and its deletions would override rows that other daemons write now.
/// This is half of the default of `maintenance.grace`.
const AHEAD_MAX_MS: i64 = 300_000;

/// Takes leases, so that only one daemon at a time runs a job. If the store does not support leases, every
/// daemon runs the job.
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
    /// Makes a keeper that takes its leases from `store`.
    pub fn new(store: Arc<dyn SharedStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, held: Mutex::default() }
    }

    /// Takes the lease of a job and renews it until [`LeaseKeeper::release`]. Returns `false` if another
    /// daemon has it. Cancels `lost` if the lease cannot be renewed in time, or if our clock is set far ahead
    /// of the servers' clocks; the job must stop then.
    ///
    /// # Errors
    /// If our clock is far ahead of the servers', or if the store fails or does not answer. In the latter cases the
    /// lease may have been taken; it is not renewed, and expires.
    pub async fn take(&self, job: &str, lost: &CancellationToken) -> Result<bool, StoreError> {
        let clocks = Clocks::compare(&self.store, &self.clock).await?;
        let lease = match self.store.shared_features().await?.leases {
            false => None,
            true => {
                let taken = self.store.take_lease(&format!("maintenance/{job}"), &host(), TTL).await?;
                let Some(lease) = taken else { return Ok(false) };
                Some(lease)
            }
        };
        let done = CancellationToken::new();
        let renewal = tokio::spawn(renew(lease, clocks, done.clone(), lost.clone()));
        self.lock().insert(job.to_owned(), Held { done, renewal });
        Ok(true)
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

/// The last comparison of our clock with the servers' clocks.
struct Clocks {
    store: Arc<dyn SharedStore>,
    clock: Arc<dyn Clock>,
    /// How far our clock was ahead, what it showed, and the time of the comparison on a clock that is never
    /// set.
    ahead_ms: i64,
    now_ms: i64,
    compared: Instant,
}

impl Clocks {
    /// Compares the clocks. Fails if ours is too far ahead for a job.
    async fn compare(store: &Arc<dyn SharedStore>, clock: &Arc<dyn Clock>) -> Result<Self, StoreError> {
        // Read before the request, so that a slow answer does not make our clock look ahead.
        let (now_ms, compared) = (clock.now_ms(), Instant::now());
        let ahead_ms = now_ms - store.server_clock_ms().await?;
        if ahead_ms <= AHEAD_MAX_MS {
            let (store, clock) = (Arc::clone(store), Arc::clone(clock));
            return Ok(Self { store, clock, ahead_ms, now_ms, compared });
        }
        let seconds = ahead_ms / 1000;
        let operation = format!(
            "run a maintenance job: the clock of this machine is {seconds} s ahead of the server's, so metrics could \
             wrongly count as expired; correct it, for example with NTP"
        );
        Err(StoreError::new(ErrorKind::Unavailable, operation))
    }

    /// Whether our clock has been set too far ahead since the last comparison, as far as this can be known
    /// without a request. A machine that was suspended looks the same.
    fn look_ahead(&self) -> bool {
        let passed_ms = i64::try_from(self.compared.elapsed().as_millis()).unwrap_or(i64::MAX);
        let set_by_ms = (self.clock.now_ms() - self.now_ms).saturating_sub(passed_ms);
        self.ahead_ms.saturating_add(set_by_ms) > AHEAD_MAX_MS
    }
}

/// Renews a lease until `done`, then releases it. Cancels `lost` when another daemon has the lease or could
/// take it before the next renewal, or when our clock was set too far ahead. There is no lease if the store
/// does not support leases.
async fn renew(
    lease: Option<Box<dyn Lease>>,
    mut clocks: Clocks,
    done: CancellationToken,
    lost: CancellationToken,
) {
    let mut renewed = Instant::now();
    let mut due = renewed + RENEW_EVERY;
    while done.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
        if clocks.look_ahead() {
            match Clocks::compare(&clocks.store, &clocks.clock).await {
                Ok(compared) => clocks = compared,
                // If a server does not answer, it is not known who has the lease. The job can do nothing
                // without the server anyway.
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "it cannot be checked who holds the lease of a maintenance job; the job stops and continues later"
                    );
                    lost.cancel();
                    break;
                }
            }
        }
        let Some(lease) = &lease else { continue };
        if Instant::now() < due {
            continue;
        }
        let asked = Instant::now();
        due = asked + RENEW_EVERY;
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
    let Some(lease) = lease else { return };
    if let Err(error) = lease.release().await {
        tracing::debug!(error = &error as &dyn std::error::Error, "lease not released, it expires by itself");
    }
}
