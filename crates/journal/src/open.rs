//! Opening the fjall databases of this crate: the check of their format, the repair of a torn tail, and
//! what errors mean.

use std::io;
use std::path::Path;

use fjall::config::{CompressionPolicy, FilterPolicy};
use fjall::{CompressionType, KeyspaceCreateOptions};

use crate::repair::{Repair, clear_unfinished, repair};
use crate::{JournalError, format};

/// Sealed log files of fjall's beyond which it makes keyspaces flush; the smallest that it takes.
const SEALED_LOG_BYTES: u64 = 64 << 20;

/// Opens or creates the database of this format in `path`; says so when a torn tail was cut for that.
pub(crate) fn open<T>(
    path: &Path,
    format: &str,
    cache_bytes: u64,
    with: impl Fn(fjall::Database) -> fjall::Result<T>,
) -> Result<(T, Option<Repair>), JournalError> {
    format::check(path, format)?;
    clear_unfinished(path)?;
    let mut repaired = None;
    let fjall = match open_fjall(path, cache_bytes) {
        Err(fjall::Error::JournalRecovery(_)) => {
            repaired = Some(repair(path)?);
            open_fjall(path, cache_bytes)
        }
        result => result,
    };
    let database = fjall.and_then(with).map_err(|error| open_error(path, error))?;
    format::write(path, format)?;
    Ok((database, repaired))
}

/// For rows that are read in order, a few times at most: no compression, no filters. Full memtables are
/// our business.
pub(crate) fn rows_in_order() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(u64::MAX)
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
}

fn open_fjall(path: &Path, cache_bytes: u64) -> fjall::Result<fjall::Database> {
    fjall::Database::builder(path)
        .worker_threads(1)
        .cache_size(cache_bytes)
        .journal_compression(CompressionType::None)
        .max_journaling_size(SEALED_LOG_BYTES)
        .open()
}

fn open_error(path: &Path, error: fjall::Error) -> JournalError {
    let path = path.to_owned();
    match error {
        fjall::Error::Locked => JournalError::Locked { path },
        fjall::Error::InvalidVersion(found) => JournalError::Format {
            path: path.join("version"),
            found: found.map_or_else(|| "no version".to_owned(), |version| format!("{version:?}")),
        },
        fjall::Error::Io(ref cause) if is_full(cause) => {
            JournalError::Unavailable { reason: format!("{}: {cause}", path.display()) }
        }
        fjall::Error::Io(cause) => JournalError::failed(format!("open {}", path.display()), cause),
        damage => JournalError::Corrupt { path, reason: damage.to_string() },
    }
}

/// True for the errors that go away when someone makes room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
