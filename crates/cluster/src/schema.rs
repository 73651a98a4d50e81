//! Checks the schema of the shared store, at the start and again while it has a problem.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumbago_store::{SchemaNeeds, SchemaStatus, SharedStore, StoreError};
use tokio::time::Instant;

/// How often the schema is checked while tables cannot be used: an operator may run `syncdb` meanwhile.
const CHECK_TABLES: Duration = Duration::from_secs(5);
/// How often the schema is checked while only a feature is off, and how often the commit log is looked at otherwise: an
/// operator may have switched it off.
const CHECK_REST: Duration = Duration::from_secs(60);

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
    /// fatal problem, and something else has changed. Checks that fail are logged and repeated.
    pub(crate) async fn wait_for_change(&self, store: &dyn SharedStore) -> SchemaStatus {
        let mut last_check = Instant::now();
        loop {
            tokio::time::sleep(CHECK_TABLES).await;
            let before = self.status();
            let refused = store.refused_tables();
            let is_broken = !before.fatal.is_empty() || !refused.is_empty();
            if !is_broken && last_check.elapsed() < CHECK_REST {
                continue;
            }
            last_check = Instant::now();
            if !is_broken && before.features_off.is_empty() {
                // Not the whole schema: a server whose schema is behind must not stop what works.
                if let Some(changed) = self.changed_log(store, before).await {
                    return changed;
                }
                continue;
            }
            match self.check(store).await {
                Ok(now) if !now.fatal.is_empty() => {}
                // Rights that the role lacks are not part of the schema, so such tables stay refused.
                Ok(now) if !is_changed(&before, &now) && (refused.is_empty() || is_refused(store)) => {}
                Ok(now) => return now,
                Err(error) => tracing::debug!(%error, "cannot check the schema, trying again"),
            }
        }
    }

    /// The status with the present state of the commit log, if that has changed.
    async fn changed_log(&self, store: &dyn SharedStore, before: SchemaStatus) -> Option<SchemaStatus> {
        let keeps = match store.keeps_commit_log().await {
            Ok(keeps) => keeps?,
            Err(error) => {
                tracing::debug!(%error, "cannot check the commit log, trying again");
                return None;
            }
        };
        if keeps == before.keeps_commit_log {
            return None;
        }
        let changed = SchemaStatus { keeps_commit_log: keeps, ..before };
        *self.lock() = changed.clone();
        Some(changed)
    }

    pub(crate) fn status(&self) -> SchemaStatus {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, SchemaStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_refused(store: &dyn SharedStore) -> bool {
    !store.refused_tables().is_empty()
}

/// Whether two checks differ in more than their notes.
fn is_changed(before: &SchemaStatus, now: &SchemaStatus) -> bool {
    let without_notes = |status: &SchemaStatus| SchemaStatus { notes: Vec::new(), ..status.clone() };
    without_notes(before) != without_notes(now)
}

/// Logs the problems that a check has found.
pub(crate) fn log(status: &SchemaStatus) {
    for problem in &status.fatal {
        tracing::error!(problem, "a table cannot be used; its rows stay in the spool");
    }
    for problem in status.features_off.iter().chain(&status.notes) {
        tracing::warn!(problem, "the schema of the server differs from the expected one");
    }
    if status.ignores_x_files_factor {
        tracing::info!(
            "the keyspaces were created by BigGraphite, which ignores xFilesFactor; Plumbago does not apply it either"
        );
    }
}
