//! What went wrong in the journal, by what the caller does next.

use std::path::PathBuf;

/// A failed operation of the journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// No room, or the disk refuses writes for now: what was not handed over is still in the
    /// writer's frames; try again later.
    #[error("the journal takes no points for now: {reason}")]
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// Another process has the directory.
    #[error("{} is in use by another process", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The directory was written by another version.
    #[error("{} has a format that this version does not read: {found}", path.display())]
    Format {
        /// The file that says so.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// A file is damaged beyond what can be skipped.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A sync failed: what was handed over since the last good one may not be on the disk. Nothing
    /// more is taken until a restart.
    #[error("the journal failed to sync and takes no more points: {reason}")]
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// [`crate::Journal::close`] was called.
    #[error("the journal is closed")]
    Closed,
    /// Any other failure.
    #[error("failed to {operation}")]
    Failed {
        /// What was tried, as a fragment that follows "failed to".
        operation: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl JournalError {
    /// True when trying again later can succeed.
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
