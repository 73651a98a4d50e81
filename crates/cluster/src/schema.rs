//! Checks the schema of the shared store, at the start and again while it has a problem.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumbago_store::{SchemaNeeds, SchemaStatus, SharedStore, StoreError};
use tokio::time::Instant;

/// How often the schema is checked while tables cannot be used: an operator may be running `syncdb`.
const CHECK_TABLES: Duration = Duration::from_secs(3);
/// How often the schema is checked while only a feature is off. While nothing is wrong, this is how often the
/// check looks whether the keyspaces have a commit log, because an operator may switch it off.
const CHECK_REST: Duration = Duration::from_secs(60);

/// The result of the last check, and what to check.
#[derive(Debug)]
pub(crate) struct SchemaCheck {
    needs: SchemaNeeds,
    status: Mutex<SchemaStatus>,
    had_fatal: AtomicBool,
}

impl SchemaCheck {
    pub(crate) fn new(needs: SchemaNeeds) -> Self {
        Self { needs, status: Mutex::default(), had_fatal: AtomicBool::new(false) }
    }

    /// Checks the schema once. Keeps the result and returns it.
    pub(crate) async fn check(&self, store: &dyn SharedStore) -> Result<SchemaStatus, StoreError> {
        let status = store.check_schema(&self.needs).await?;
        self.had_fatal.fetch_or(!status.fatal.is_empty(), Ordering::Relaxed);
        *self.lock() = status.clone();
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
                // The whole schema is read only if a keyspace is gone. Otherwise a server whose schema is out
                // of date could make working tables appear broken.
                match store.keeps_commit_log().await {
                    Ok(None) => {}
                    Ok(Some(keeps)) if keeps != before.keeps_commit_log => {
                        return self.set_log(before, keeps);
                    }
                    Ok(Some(_)) => continue,
                    Err(error) => {
                        tracing::debug!(%error, "cannot check the commit log, trying again");
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

    /// The status `before` with a new state of the commit log.
    fn set_log(&self, before: SchemaStatus, keeps_commit_log: bool) -> SchemaStatus {
        let now = SchemaStatus { keeps_commit_log, ..before };
        *self.lock() = now.clone();
        now
    }

    /// Whether a check since the last call has found tables that cannot be used.
    pub(crate) fn take_had_fatal(&self) -> bool {
        self.had_fatal.swap(false, Ordering::Relaxed)
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
