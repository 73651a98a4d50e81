//! Checks the schema of the shared store, at the start and again while it has a problem.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumbago_store::{SchemaNeeds, SchemaStatus, SharedStore, StoreError};
use tokio::time::Instant;

/// How often the schema is checked while tables cannot be used: an operator may run `syncdb` meanwhile.
const CHECK_TABLES: Duration = Duration::from_secs(3);
/// How often the schema is checked while only a feature is off.
const CHECK_FEATURES: Duration = Duration::from_secs(60);

/// The result of the last check, and what to check.
#[derive(Debug)]
pub(crate) struct SchemaCheck {
    needs: SchemaNeeds,
    status: Mutex<SchemaStatus>,
}

impl SchemaCheck {
    pub(crate) fn new(needs: SchemaNeeds) -> Self {
        Self { needs, status: Mutex::default() }
    }

    /// Checks the schema once. Keeps the result and returns it.
    pub(crate) async fn check(&self, store: &dyn SharedStore) -> Result<SchemaStatus, StoreError> {
        let status = store.check_schema(&self.needs).await?;
        *self.lock() = status.clone();
        Ok(status)
    }

    /// Checks the schema whenever a check is due, and returns once the caller has something to do: the schema has no
    /// fatal problem, and it had one before or other features are off than before. Checks that fail are logged and
    /// repeated.
    pub(crate) async fn wait_for_change(&self, store: &dyn SharedStore) -> SchemaStatus {
        let mut last_check = Instant::now();
        loop {
            tokio::time::sleep(CHECK_TABLES).await;
            let before = self.status();
            let is_broken = !before.fatal.is_empty() || !store.refused_tables().is_empty();
            let features_due = !before.features_off.is_empty() && last_check.elapsed() >= CHECK_FEATURES;
            if !is_broken && !features_due {
                continue;
            }
            last_check = Instant::now();
            match self.check(store).await {
                Ok(now) if !now.fatal.is_empty() => {}
                Ok(now) if !is_broken && now.features_off == before.features_off => {}
                Ok(now) => return now,
                Err(error) => tracing::debug!(%error, "cannot check the schema, trying again"),
            }
        }
    }

    pub(crate) fn status(&self) -> SchemaStatus {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, SchemaStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs the problems that a check has found.
pub(crate) fn log(status: &SchemaStatus) {
    for problem in &status.fatal {
        tracing::error!(problem, "a table cannot be used; its rows stay in the spool");
    }
    for problem in status.features_off.iter().chain(&status.notes) {
        tracing::warn!(
            problem,
            "a table on the server is missing or has another form; points are stored all the same"
        );
    }
    if status.ignores_x_files_factor {
        tracing::info!(
            "the keyspaces were created by BigGraphite, which ignores xFilesFactor; Plumbago does not apply it either"
        );
    }
}
