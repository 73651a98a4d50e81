//! The verb `backup`: copies the data directory of the running daemon ([`crate::backup`]).

use plumbago_boxed_futures::boxed_futures;
use plumbago_telemetry::Registry;
use serde::{Deserialize, Serialize};

use crate::backup::BackupError;
use crate::backup::take::{Means, Order, Taken, take};
use crate::verb::{Verb, VerbError, Work};

/// Takes a backup of the data directory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Backup(pub Order);

#[boxed_futures]
impl Verb for Backup {
    const NAME: &'static str = "backup";
    type Answer = Taken;

    fn check(&self) -> Result<(), String> {
        let dir = &self.0.dir;
        if !dir.is_absolute() {
            return Err(format!("the directory {:?} is not an absolute path", dir.display().to_string()));
        }
        if self.0.keep == Some(0) {
            return Err("keep: must be at least 1".to_owned());
        }
        Ok(())
    }

    async fn run(&self, work: &Work) -> Result<Taken, VerbError> {
        let (order, work) = (self.0.clone(), work.clone());
        let registry = work.context.registry.clone();
        let done = tokio::task::spawn_blocking(move || {
            let means = Means {
                files: &*work.files,
                clock: &*work.context.clock,
                progress: &work.progress,
                stop: work.stop(),
            };
            take(&order, means)
        });
        let result = done.await.map_err(|error| VerbError::Failed(error.to_string()))?;
        if !self.0.dry_run {
            count(&registry, &result);
        }
        Ok(result?)
    }
}

/// Counts a run by how it ended.
fn count(registry: &Registry, result: &Result<Taken, BackupError>) {
    let ended = match result {
        Ok(taken) if taken.damaged.is_empty() => "done",
        Ok(_) => "done_damaged",
        Err(BackupError::DiskFull { .. }) => "disk_full",
        Err(BackupError::Cancelled) => "cancelled",
        Err(_) => "failed",
    };
    let help = "backups by how they ended";
    registry.counter("plumbago_backups_total", help, &[("result", ended)]).add(1);
    let copied = registry.counter("plumbago_backup_copied_bytes_total", "bytes written into backups", &[]);
    copied.add(result.as_ref().map_or(0, |taken| taken.copied_bytes));
    match result {
        Ok(taken) => tracing::info!(
            generation = taken.generation,
            files = taken.files,
            copied_bytes = taken.copied_bytes,
            "a backup was taken"
        ),
        Err(error) => {
            tracing::warn!(
                %error,
                "a backup failed; run the same command again: it uses the files that are copied already"
            );
        }
    }
}
