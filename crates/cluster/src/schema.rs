//! Checks the schema of the shared store, at the start and again while it has a problem.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumbago_store::{KeyspaceState, SchemaNeeds, SchemaStatus, SharedStore, StoreError};
use tokio::time::Instant;

/// How often the schema is checked while tables cannot be used: an operator may be running `syncdb`.
const CHECK_TABLES: Duration = Duration::from_secs(3);
/// How often the schema is checked while only a feature is off. While nothing is wrong, this is how often the
/// check looks at the state of the keyspaces: an operator may switch their commit log off, or drop them and
/// create them again.
const CHECK_REST: Duration = Duration::from_secs(60);

/// The result of the last check, and what to check.
#[derive(Debug)]
pub(crate) struct SchemaCheck {
    needs: SchemaNeeds,
    status: Mutex<SchemaStatus>,
    may_lack_names: AtomicBool,
}

impl SchemaCheck {
    pub(crate) fn new(needs: SchemaNeeds) -> Self {
        Self { needs, status: Mutex::default(), may_lack_names: AtomicBool::new(false) }
    }

    /// Checks the schema once. Keeps the result and returns it.
    pub(crate) async fn check(&self, store: &dyn SharedStore) -> Result<SchemaStatus, StoreError> {
        let status = store.check_schema(&self.needs).await?;
        let before = std::mem::replace(&mut *self.lock(), status.clone());
        // A first check has nothing to compare with.
        let had_other_table = before.keyspaces.names_created_us.is_some()
            && before.keyspaces.names_created_us != status.keyspaces.names_created_us;
        self.may_lack_names.fetch_or(had_other_table || !status.fatal.is_empty(), Ordering::Relaxed);
        Ok(status)
    }

    /// Checks the schema whenever a check is due. Returns once the schema has no fatal problem and something
    /// else has changed, so that the caller has something to do. Checks that fail are logged and repeated.
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
                // The whole schema is read only if a keyspace is gone or was created again. Otherwise a server
                // whose schema is out of date could make working tables appear broken.
                match store.keyspace_state().await {
                    Ok(None) => {}
                    Ok(Some(now)) if now == before.keyspaces => continue,
                    Ok(Some(now)) if now.names_created_us != before.keyspaces.names_created_us => {}
                    Ok(Some(now)) => return self.set_keyspaces(before, now),
                    Err(error) => {
                        tracing::debug!(%error, "cannot check the keyspaces, trying again");
                        continue;
                    }
                }
            }
            match self.check(store).await {
                Ok(now) if !now.fatal.is_empty() => {}
                // A missing permission cannot be seen in the schema, so such tables stay refused.
                Ok(now) if !is_changed(&before, &now) && (refused.is_empty() || is_refused(store)) => {}
                Ok(now) => return now,
                Err(error) => tracing::debug!(%error, "cannot check the schema, trying again"),
            }
        }
    }

    /// The status `before` with a new state of the keyspaces.
    fn set_keyspaces(&self, before: SchemaStatus, keyspaces: KeyspaceState) -> SchemaStatus {
        let now = SchemaStatus { keyspaces, ..before };
        *self.lock() = now.clone();
        now
    }

    /// Whether a check since the last call has found tables that cannot be used, or another table for names than
    /// the check before it. Such tables may lack names that the servers had before.
    pub(crate) fn take_may_lack_names(&self) -> bool {
        self.may_lack_names.swap(false, Ordering::Relaxed)
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

/// Whether two checks differ in anything but their notes.
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
        tracing::warn!(
            problem,
            "a table on the server is missing or differs from what is expected; points are stored all the same"
        );
    }
    if status.ignores_x_files_factor {
        tracing::info!(
            "the keyspaces were created by BigGraphite, which ignores xFilesFactor; Plumbago does not apply it either"
        );
    }
}
