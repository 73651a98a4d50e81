//! Errors of a database, sorted by what the caller does next.

use std::io;
use std::path::{Path, PathBuf};

use fjall::{Error, LsmError};

/// The advice at the end of the text of a refusal.
pub(crate) const REPAIR: &str = "Nothing was changed. Restore the directory from a backup, or run `plumbago repair store --dry-run`, which shows \
     what can be saved and what is lost";

/// A database that could not be opened, repaired, written or synced.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The disk is full or currently reports errors. A later retry can succeed.
    #[error("failed to {operation}: {reason}")]
    Unavailable {
        /// What was attempted, worded to follow "failed to".
        operation: String,
        /// The operating system's error message.
        reason: String,
    },
    /// A write or sync failed, and the database has not been reopened yet. Retry later.
    #[error("{} refuses writes: {reason}", path.display())]
    Broken {
        /// The directory of the database.
        path: PathBuf,
        /// What failed.
        reason: String,
    },
    /// A sync failed. No data written since the last successful sync is durable. Retry later.
    #[error(
        "{} could not be synced to disk; nothing written since the last successful sync counts as durable: {reason}",
        path.display()
    )]
    SyncFailed {
        /// The directory of the database.
        path: PathBuf,
        /// The operating system's error message.
        reason: String,
    },
    /// Acknowledged commits were missing after the database was reopened. Only a restart replays them from
    /// the journal.
    #[error(
        "{} lost acknowledged writes when its disk failed, and accepts no more: restart plumbago, which \
         restores them from the journal",
        path.display()
    )]
    Lost {
        /// The directory of the database.
        path: PathBuf,
    },
    /// fjall does not write tables fast enough. Retry later.
    #[error("the disk does not keep up: rows were not written to tables in time")]
    Behind,
    /// The database was closed.
    #[error("{} is closed", path.display())]
    Closed {
        /// The directory of the database.
        path: PathBuf,
    },
    /// Another process has opened the database.
    #[error("{} is in use by another process", path.display())]
    Locked {
        /// The directory of the database.
        path: PathBuf,
    },
    /// The directory was written by another version of Plumbago or by another program.
    #[error("{} has a format that this version does not read: {found}", path.display())]
    Format {
        /// The file that states the format.
        path: PathBuf,
        /// What the file says.
        found: String,
    },
    /// A file is damaged and cannot be repaired without losing synced data.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// The damaged file, or the directory if the file is not known.
        path: PathBuf,
        /// The problem, as text.
        reason: String,
    },
    /// Any other failure.
    #[error("failed to {operation}")]
    Failed {
        /// What was attempted, worded to follow "failed to".
        operation: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The kinds of fjall's errors, by what the caller does about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The data is damaged and will stay unreadable. Skip it and report that.
    Damaged,
    /// The disk is full or currently reports errors. Retry later.
    Unavailable,
    /// Writing to the directory is not permitted. An operator has to change its permissions.
    Forbidden,
    /// A bug or an unknown failure.
    Internal,
}

/// What the database was doing when an error occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading rows. An input/output error means that the disk has lost them.
    Read,
    /// Writing rows or opening the database.
    Write,
}

/// Classifies an error of fjall by how the caller reacts to it.
pub fn cause_of(error: &Error, access: Access) -> Cause {
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => io_cause(error, access),
        // The database accepts writes again once it has been reopened.
        Error::Poisoned => Cause::Unavailable,
        Error::Storage(_)
        | Error::JournalRecovery(_)
        | Error::Decompress(_)
        | Error::InvalidTrailer
        | Error::InvalidTag(_)
        | Error::Unrecoverable => Cause::Damaged,
        _ => Cause::Internal,
    }
}

/// Classifies an I/O error by what the caller does about it.
pub fn io_cause(error: &io::Error, access: Access) -> Cause {
    // A sector that cannot be read now will not become readable.
    if access == Access::Read && error.raw_os_error() == Some(nix::errno::Errno::EIO as i32) {
        return Cause::Damaged;
    }
    match error.kind() {
        // A table that is shorter than its trailer causes a seek to a position before its start.
        io::ErrorKind::NotFound
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput => Cause::Damaged,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Cause::Forbidden,
        _ => Cause::Unavailable,
    }
}

/// The message of an error. If it is an I/O error, the text that fjall adds is removed.
pub(crate) fn text(error: &Error) -> String {
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => advised(error),
        error => error.to_string(),
    }
}

/// The message of an I/O error. For a full disk it also says what to do.
fn advised(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("{error}; make room on this disk")
        }
        _ => error.to_string(),
    }
}

impl HostError {
    /// Converts an error that occurred when opening the database in `dir`.
    pub fn opening(dir: &Path, error: Error) -> Self {
        let path = dir.to_owned();
        match error {
            Error::Locked => Self::Locked { path },
            Error::InvalidVersion(found) => Self::Format {
                path: path.join("version"),
                found: found.map_or_else(|| "no version".to_owned(), |version| format!("{version:?}")),
            },
            error => match cause_of(&error, Access::Write) {
                Cause::Unavailable => {
                    Self::Unavailable { operation: format!("open {}", dir.display()), reason: text(&error) }
                }
                Cause::Damaged => Self::Corrupt {
                    reason: format!(
                        "{}. {}",
                        crate::diagnosis::find(dir).unwrap_or_else(|| text(&error)),
                        REPAIR
                    ),
                    path,
                },
                Cause::Forbidden | Cause::Internal => Self::failed(format!("open {}", dir.display()), error),
            },
        }
    }

    /// Converts an I/O error with files in `dir`.
    pub(crate) fn io(dir: &Path, operation: &str, error: io::Error) -> Self {
        let operation = format!("{operation} {}", dir.display());
        match io_cause(&error, Access::Write) {
            Cause::Unavailable => Self::Unavailable { operation, reason: advised(&error) },
            _ => Self::failed(operation, error),
        }
    }

    pub(crate) fn failed(
        operation: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed { operation: operation.into(), source: source.into() }
    }
}
