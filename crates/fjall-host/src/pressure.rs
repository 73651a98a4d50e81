//! Limits the memory for unwritten rows.
//!
//! fjall's own limits can deadlock. Once a memtable is too large, each commit sends fjall's worker a message
//! to write it out. If the worker is behind, these messages fill its queue, and the worker can then wait
//! forever for space in its own queue. Above a certain number of unwritten tables, fjall blocks commits. If
//! its worker has died, it blocks them forever. So the callers of this module rotate memtables themselves and
//! wait before they call fjall.

use std::time::{Duration, Instant};

use fjall::{AbstractTree, Database, Keyspace, PersistMode};

use crate::HostError;

/// One less than the number of unwritten memtables at which fjall blocks writers.
const SEALED_MEMTABLES_MAX: usize = 3;
/// Slightly less than the number of overlapping tables at which fjall blocks writers.
const RUNS_MAX: usize = 18;

/// The longest time that a commit waits for the disk before it fails.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Whether a keyspace's unwritten rows take more than `max_bytes` in memory.
pub fn is_full(keyspace: &Keyspace, max_bytes: u64) -> bool {
    keyspace.tree.active_memtable().size() > max_bytes
}

/// Starts writing a keyspace's rows to a table once they take more than `max_bytes` in memory. Call this
/// after every commit to the keyspace.
///
/// # Errors
/// fjall's error if the memtable cannot be rotated. The database must be reopened.
pub fn rotate_when_full(keyspace: &Keyspace, max_bytes: u64) -> fjall::Result<()> {
    if is_full(keyspace, max_bytes) {
        keyspace.rotate_memtable()?;
    }
    Ok(())
}

/// Whether the keyspace has nearly as many unwritten tables as fjall needs to block writers.
pub fn is_behind(keyspace: &Keyspace) -> bool {
    keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX || keyspace.tree.l0_run_count() >= RUNS_MAX
}

/// Waits, at most for [`WAIT_MAX`], until fjall has caught up with writing the tables of these keyspaces.
///
/// # Errors
/// [`HostError::Behind`] if that time has passed. [`HostError::Failed`] if fjall has stopped writing; the
/// database must be reopened.
pub fn wait<'a>(
    database: &Database,
    keyspaces: impl Iterator<Item = &'a Keyspace> + Clone,
) -> Result<(), HostError> {
    let start = Instant::now();
    let mut checked = start;
    while keyspaces.clone().any(is_behind) {
        std::thread::sleep(Duration::from_millis(1));
        // Only a write shows whether fjall's worker has died.
        if checked.elapsed() > Duration::from_millis(50) {
            checked = Instant::now();
            database
                .persist(PersistMode::Buffer)
                .map_err(|error| HostError::failed("write: the database has stopped", error))?;
        }
        if start.elapsed() > WAIT_MAX {
            return Err(HostError::Behind);
        }
    }
    Ok(())
}
