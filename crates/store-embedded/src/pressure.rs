//! Memory for unwritten rows is ours to bound.
//!
//! fjall writes a memtable out when a commit finds it too large: it asks its worker to, with a message
//! for each commit from then on. A worker that is behind fills its own queue so, and then waits for
//! room in it, for ever. And from a number of unwritten tables on fjall makes commits wait inside, for
//! ever too if its worker has died. So we rotate memtables ourselves and wait outside.

use std::time::{Duration, Instant};

use fjall::{AbstractTree, Database, Keyspace, PersistMode};
use plumbago_store::{ErrorKind, StoreError};

use crate::database;

/// Unwritten rows of a keyspace beyond which they go to a table.
const MEMTABLE_BYTES: u64 = 16 << 20;

/// One below the number of memtables at which fjall waits.
const SEALED_MEMTABLES_MAX: usize = 3;
/// Somewhat below the number of overlapping tables at which fjall waits.
const RUNS_MAX: usize = 18;

/// How long a commit waits before it gives up.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Has a keyspace's rows written to a table once there are many; after every commit to it.
pub(crate) fn rotate_when_full(keyspace: &Keyspace) -> fjall::Result<()> {
    if keyspace.tree.active_memtable().size() > MEMTABLE_BYTES {
        keyspace.rotate_memtable()?;
    }
    Ok(())
}

/// True shortly before fjall would make a writer wait.
pub(crate) fn is_behind(keyspace: &Keyspace) -> bool {
    keyspace.sealed_memtable_count() >= SEALED_MEMTABLES_MAX || keyspace.tree.l0_run_count() >= RUNS_MAX
}

/// Waits while fjall is behind with the tables of these keyspaces.
pub(crate) fn wait<'a>(
    fjall: &Database,
    keyspaces: impl Iterator<Item = &'a Keyspace> + Clone,
) -> Result<(), StoreError> {
    let start = Instant::now();
    let mut checked = start;
    while keyspaces.clone().any(is_behind) {
        std::thread::sleep(Duration::from_millis(1));
        // Nothing gets better once fjall's worker has stopped, and only a write shows that.
        if checked.elapsed() > Duration::from_millis(50) {
            checked = Instant::now();
            fjall
                .persist(PersistMode::Buffer)
                .map_err(|error| database::error("commit: the database has stopped", error))?;
        }
        if start.elapsed() > WAIT_MAX {
            return Err(StoreError::new(ErrorKind::Overloaded, "commit: tables are not written fast enough"));
        }
    }
    Ok(())
}
