//! One daemon of a cluster at a time, by a lease in the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use plumbago_maintenance::Turn;
use plumbago_store::StoreError;
use plumbago_store_cassandra::{CassandraStore, Lease};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a lease outlives who holds it: shorter than a daemon that was killed takes to go on.
const TTL: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// Takes leases where the store has a table for them; elsewhere nobody else is known.
#[derive(Debug)]
pub(super) struct LeaseTurn {
    store: CassandraStore,
    host: String,
    held: Mutex<HashMap<String, Held>>,
}

#[derive(Debug)]
struct Held {
    done: CancellationToken,
    keeper: JoinHandle<()>,
}

impl LeaseTurn {
    pub(super) fn new(store: CassandraStore, host: String) -> Self {
        Self { store, host, held: Mutex::default() }
    }
}

#[async_trait]
impl Turn for LeaseTurn {
    async fn take(&self, job: &str, lost: &CancellationToken) -> Result<bool, StoreError> {
        let (_, features) = self.store.features().await?;
        if !features.leases {
            return Ok(true);
        }
        let Some(lease) = self.store.lease(&format!("maintenance/{job}"), &self.host, TTL).await? else {
            return Ok(false);
        };
        let done = CancellationToken::new();
        let keeper = tokio::spawn(keep(lease, done.clone(), lost.clone()));
        let held = Held { done, keeper };
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(job.to_owned(), held);
        Ok(true)
    }

    async fn give_back(&self, job: &str) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(job);
        if let Some(Held { done, keeper }) = held {
            done.cancel();
            let _ = keeper.await;
        }
    }
}

/// Renews a lease until it is done with, and then gives it back; tells when somebody else may have it.
async fn keep(lease: Lease, done: CancellationToken, lost: CancellationToken) {
    let mut renewed = Instant::now();
    while done.run_until_cancelled(tokio::time::sleep(RENEW_EVERY)).await.is_some() {
        let asked = Instant::now();
        match lease.renew().await {
            Ok(true) => renewed = asked,
            Err(error) if renewed.elapsed() < TTL - RENEW_EVERY => {
                tracing::warn!(error = &error as &dyn std::error::Error, "lease not renewed, trying again");
            }
            _ => {
                tracing::warn!("the lease of a maintenance job is lost: the job ends and goes on later");
                return lost.cancel();
            }
        }
    }
    if let Err(error) = lease.release().await {
        tracing::debug!(error = &error as &dyn std::error::Error, "lease not given back: it ends by itself");
    }
}
