//! What went wrong in the spool, by what the caller does next.

use crate::JournalError;

/// A failed operation of the spool.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// It holds as much as it may: wait until the remote store has taken some of it.
    #[error("the spool is full: it holds {held_bytes} bytes, most are {max_bytes}")]
    Full {
        /// Bytes that are not acknowledged.
        held_bytes: u64,
        /// The ceiling.
        max_bytes: u64,
    },
    /// The disk refuses writes for now, or is nearly full: try again later.
    #[error("the spool takes nothing for now: {reason}")]
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// It cannot be opened.
    #[error(transparent)]
    Open(JournalError),
    /// A sync failed: what was committed since the last good one may not be on the disk. Nothing more
    /// is taken until a restart.
    #[error("the spool failed to sync and takes no more: {reason}")]
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// What is stored cannot be read.
    #[error("the spool is damaged: {reason}")]
    Corrupt {
        /// Where and how.
        reason: String,
    },
    /// [`crate::Spool::close`] was called.
    #[error("the spool is closed")]
    Closed,
}

impl SpoolError {
    /// True when trying again later can succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Unavailable { .. })
    }

    pub(super) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }
}
