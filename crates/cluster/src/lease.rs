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
/// How often the clock is compared with the passing of time while a job runs. Asks no server.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// If our clock is ahead of the servers' by more than this, no job runs, in milliseconds. It would take metrics for
/// expired that are not, and its deletions would win over rows that others write now. Half of the usual
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
    /// daemon has it. Cancels `lost` if the lease cannot be renewed in time, or if our clock is set far ahead of the
    /// servers'; the job must stop then.
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

/// Our clock and the servers', as they were compared last.
struct Clocks {
    store: Arc<dyn SharedStore>,
    clock: Arc<dyn Clock>,
    /// How far ours was ahead, what it showed, and when that was on a clock that is never set.
    ahead_ms: i64,
    now_ms: i64,
    compared: Instant,
}

impl Clocks {
    /// Compares the clocks. Fails if ours is too far ahead for a job.
    async fn compare(store: &Arc<dyn SharedStore>, clock: &Arc<dyn Clock>) -> Result<Self, StoreError> {
        // Before the request: so a slow answer makes no clock look ahead.
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

    /// Whether our clock has been set too far ahead since, as far as can be told without asking. A machine that was
    /// asleep looks the same.
    fn look_ahead(&self) -> bool {
        let passed_ms = i64::try_from(self.compared.elapsed().as_millis()).unwrap_or(i64::MAX);
        let set_by_ms = (self.clock.now_ms() - self.now_ms).saturating_sub(passed_ms);
        self.ahead_ms.saturating_add(set_by_ms) > AHEAD_MAX_MS
    }
}

/// Renews a lease until `done`, then releases it. Cancels `lost` when another daemon has the lease or could
/// take it before the next renewal, or when our clock was set too far ahead. There is no lease if the store has none.
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
                // A server that does not answer leaves it unknown, and the job can do nothing without it anyway.
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "a maintenance job stops, and continues later"
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
