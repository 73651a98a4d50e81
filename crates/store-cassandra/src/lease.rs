//! Leases, so that only one daemon at a time runs a job. No other code uses lightweight transactions.

use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{Lease, StoreError};
use scylla::statement::SerialConsistency;
use uuid::Uuid;

use crate::driver::Values;
use crate::metadata::NameStore;

/// A lease that this process took. It expires unless it is renewed in time.
#[derive(Debug)]
pub(crate) struct HeldLease {
    store: Arc<NameStore>,
    name: String,
    holder: Uuid,
    host: String,
    ttl: i32,
}

impl HeldLease {
    /// Takes the lease `name` for `ttl`; `None` if another holder has it.
    pub(crate) async fn take(
        store: Arc<NameStore>,
        name: &str,
        host: &str,
        ttl: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let ttl = i32::try_from(ttl.as_secs()).unwrap_or(i32::MAX).max(1);
        let holder = Uuid::new_v4();
        let lease = Self { store, name: name.to_owned(), holder, host: host.to_owned(), ttl };
        let text = lease.store.text.take_lease();
        let taken = lease.decide("take a lease", text, &(name, holder, host, ttl)).await?;
        Ok(taken.then_some(lease))
    }

    async fn decide(&self, operation: &str, text: String, values: Values<'_>) -> Result<bool, StoreError> {
        self.store.applied(operation, text, values).await
    }
}

#[boxed_futures]
impl Lease for HeldLease {
    async fn renew(&self) -> Result<bool, StoreError> {
        let text = self.store.text.renew_lease();
        let values = (self.ttl, self.holder, &self.host, &self.name, self.holder);
        self.decide("renew a lease", text, &values).await
    }

    async fn release(&self) -> Result<(), StoreError> {
        let text = self.store.text.release_lease();
        self.decide("release a lease", text, &(&self.name, self.holder)).await.map(|_| ())
    }
}

impl NameStore {
    /// Runs a lightweight transaction. Returns whether it was applied.
    async fn applied(&self, operation: &str, text: String, values: Values<'_>) -> Result<bool, StoreError> {
        use scylla::value::{CqlValue, Row};
        let session = self.cluster.session().await?;
        let mut statement = (*self.statement(&*session, text, true).await?).clone();
        // The result has more columns if the transaction was not applied, and repeating the request is not
        // safe.
        statement.set_use_cached_result_metadata(false);
        statement.set_is_idempotent(false);
        // The replicas of all data centres have to agree. With the driver's default only those of the local
        // one would, so each data centre could grant the same lease.
        statement.set_serial_consistency(Some(SerialConsistency::Serial));
        let result = session.execute_unpaged(&statement, values).await;
        let rows = result
            .map_err(|error| self.failed(operation, error))?
            .into_rows_result()
            .map_err(|error| crate::error::answer(operation, error))?;
        let row: Row = rows.first_row().map_err(|error| crate::error::answer(operation, error))?;
        Ok(matches!(row.columns.first(), Some(Some(CqlValue::Boolean(true)))))
    }
}
