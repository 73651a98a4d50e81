//! Prevents two runs of a verb from damaging each other's files. A daemon runs more than one job at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

use crate::skipped::unwritable;
use crate::verb_error::VerbError;

/// Locks a file for a run of a verb, until the returned value is dropped.
///
/// # Errors
/// [`VerbError::Taken`] if another run has locked it, or an error if the file cannot be written.
pub(crate) fn lock(path: &Path, verb: &str) -> Result<File, VerbError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|error| unwritable(path, &error))?;
    hold(&file, path, verb)?;
    Ok(file)
}

/// Locks an open file until it is closed.
///
/// # Errors
/// As [`lock`].
pub(crate) fn hold(file: &File, path: &Path, verb: &str) -> Result<(), VerbError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => VerbError::Taken(verb.to_owned()),
        TryLockError::Error(error) => unwritable(path, &error),
    })
}
