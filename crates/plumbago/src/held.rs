//! Whether a daemon runs here.

use std::fs::{File, TryLockError};

use crate::config::Config;

/// Returns whether a daemon is using the data directory.
pub fn is_held(config: &Config) -> bool {
    // A daemon locks its journal whichever store it uses.
    let lock = File::open(config.journal_dir().join("lock"));
    lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}
