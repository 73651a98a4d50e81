//! The journal's errors, sorted by what the caller does next.

use std::path::PathBuf;

use plumbago_fjall_host::HostError;

/// Why an operation of the journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk is full or reports errors, or `journal.max_bytes` is reached. Unwritten records stay in the
    /// writer. Retry later.
    #[error("the journal refuses points for now: {reason}")]
    Unavailable {
        /// What failed. Names the setting if a configured limit is the cause.
        reason: String,
    },
    /// Another process has the journal open.
    #[error("{} is in use by another process; stop that process first", path.display())]
    Locked {
        /// The journal's directory.
        path: PathBuf,
    },
    /// The directory was written by a newer version of Plumbago or by another program.
    #[error("{} has a format that this version does not read: {found}", path.display())]
    Format {
        /// Path of the file that states the format.
        path: PathBuf,
        /// The content of that file.
        found: String,
    },
    /// A file is damaged, and the damage is neither an unfinished write nor damage that a replay can skip.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// The damaged file, or the directory if the file is not known.
        path: PathBuf,
        /// The problem of the file, and the remedy.
        reason: String,
    },
    /// A sync failed, and some of the data could not be written again. Its points are still in memory. The
    /// journal accepts no points until a restart.
    #[error(
        "the journal refuses points until a restart: {reason}; stop plumbago normally, so that the points in memory are stored"
    )]
    Poisoned {
        /// The lost data, as text.
        reason: String,
    },
    /// [`crate::Journal::close`] was called.
    #[error("the journal is closed")]
    Closed,
    /// Any other failure.
    #[error("failed to {operation}")]
    Failed {
        /// What was attempted, worded to follow "failed to".
        operation: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl JournalError {
    /// Whether a later attempt can succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    pub(crate) fn failed(
        operation: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed { operation: operation.into(), source: source.into() }
    }
}

/// Errors of the database that held a journal of format 1.
impl From<HostError> for JournalError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Locked { path } => Self::Locked { path },
            HostError::Format { path, found } => Self::Format { path, found },
            HostError::Corrupt { path, reason } => Self::Corrupt { path, reason },
            HostError::Failed { operation, source } => Self::Failed { operation, source },
            error @ HostError::Unavailable { .. } => Self::Unavailable { reason: error.to_string() },
            error => Self::failed("convert the journal of format 1", error),
        }
    }
}
