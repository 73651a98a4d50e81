//! Checks the files of a database before fjall opens it. fjall deletes keyspaces whose file `current` is
//! missing, begins a new log if there is none, and does not compare the checksums of manifests.
//!
//! Files that can be recreated from other files without any loss are written again. In all other cases the
//! database is refused, and nothing is deleted. The check must not read tables, because a start would take
//! too long.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{HostError, REPAIR};
use crate::log::{log_number, logs};
use crate::manifest::{self, Current, keyspaces};

/// What fjall writes into `version`.
const VERSION: &[u8] = b"FJL\x03";

/// A file that was damaged or missing and was written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mended {
    /// The path of the file.
    pub path: PathBuf,
    /// A text with the damage and the remedy.
    pub text: String,
}

/// Checks the database in `dir`, and writes `version` and `current` again if they are damaged.
///
/// # Errors
/// [`HostError::Corrupt`] if a missing or damaged file can only be replaced by `repair`, [`HostError::Failed`] if a
/// file cannot be read or written.
pub(crate) fn check(dir: &Path) -> Result<Vec<Mended>, HostError> {
    let keyspaces = keyspaces(dir).map_err(|error| failed(dir, error))?;
    if keyspaces.is_empty() {
        return Ok(Vec::new());
    }
    let mut mended = Vec::new();
    check_logs(dir)?;
    if !keyspaces.iter().any(|path| path.ends_with("0")) {
        return Err(corrupt(dir.join("keyspaces/0"), "it is missing"));
    }
    let version = dir.join("version");
    if is_version_damaged(&version) {
        fs::write(&version, VERSION).map_err(|error| failed(&version, error))?;
        let text = "it was missing or damaged and was written again; nothing is lost".to_owned();
        mended.push(Mended { path: version, text });
    }
    for keyspace in &keyspaces {
        mended.extend(check_keyspace(keyspace)?);
    }
    Ok(mended)
}

/// Whether the file differs from what version 3 of fjall writes. Our format file allows no other version of fjall.
pub(crate) fn is_version_damaged(path: &Path) -> bool {
    !fs::read(path).is_ok_and(|bytes| bytes == VERSION)
}

fn check_logs(dir: &Path) -> Result<(), HostError> {
    match missing_log(dir).map_err(|error| failed(dir, error))? {
        Some(log) => {
            Err(corrupt(log, "this log is missing, and with it all rows that were not in tables yet"))
        }
        None => Ok(()),
    }
}

/// The first missing log. Logs are numbered without gaps, and there is always at least one.
pub(crate) fn missing_log(dir: &Path) -> io::Result<Option<PathBuf>> {
    let numbers: Vec<u64> = logs(dir)?.iter().filter_map(|path| log_number(path)).collect();
    let missing = match numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        Some(pair) => Some(pair[0] + 1),
        None => numbers.is_empty().then_some(0),
    };
    Ok(missing.map(|number| dir.join(format!("{number}.jnl"))))
}

fn check_keyspace(keyspace: &Path) -> Result<Option<Mended>, HostError> {
    let current = manifest::current_path(keyspace);
    let read = |path: &Path| match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some).map_err(|error| failed(path, error)),
    };
    let named = read(&current)?.and_then(|bytes| Current::parse(&bytes));
    if let Some(named) = named {
        let path = keyspace.join(format!("v{}", named.version));
        if let Some(bytes) = read(&path)? {
            if named.fits(&bytes) {
                return Ok(None);
            }
            return Err(corrupt(path, "this manifest does not match its checksum in `current` beside it"));
        }
    }
    let versions = manifest::versions(keyspace).map_err(|error| failed(keyspace, error))?;
    let tables = fs::read_dir(keyspace.join("tables")).map_or(0, Iterator::count);
    let sound = manifest::newest_sound(keyspace).map_err(|error| failed(keyspace, error))?;
    // The process died while it created the keyspace, before or after its first manifest was complete.
    let is_unfinished = tables == 0 && versions.iter().all(|version| *version == 0) && !current.exists();
    match sound {
        None if is_unfinished => Ok(None),
        Some(version) => {
            manifest::write_current(keyspace, version).map_err(|error| failed(&current, error))?;
            if is_unfinished {
                return Ok(None);
            }
            let text =
                format!("it was missing or damaged and was written again from v{version}; nothing is lost");
            Ok(Some(Mended { path: current, text }))
        }
        None => {
            Err(corrupt(current, "it is missing or damaged, and no manifest beside it has all its tables"))
        }
    }
}

fn corrupt(path: PathBuf, reason: &str) -> HostError {
    HostError::Corrupt { path, reason: format!("{reason}. {REPAIR}") }
}

fn failed(path: &Path, error: io::Error) -> HostError {
    HostError::failed(format!("check {}", path.display()), error)
}
