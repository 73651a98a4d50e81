//! Errors of the spool, by what the caller does next.

use plumbago_fjall_host::HostError;

/// A failed operation of the spool.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The spool is at its limit. Retry once the remote store has taken some rows.
    #[error("the spool is full: it holds {held_bytes} of {max_bytes} bytes (spool.max_bytes)")]
    Full {
        /// Number of bytes that are pending or retained.
        held_bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// The disk refuses writes or is nearly full. Retry later.
    #[error("the spool refuses rows for now: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
    /// The database cannot be opened, or can be opened only after a restart of the process.
    #[error(transparent)]
    Open(HostError),
    /// Stored rows that the spool needs are damaged.
    #[error("the spool is damaged: {reason}")]
    Corrupt {
        /// The damage, as text.
        reason: String,
    },
    /// [`crate::Spool::close`] was called.
    #[error("the spool is closed")]
    Closed,
}

impl From<HostError> for SpoolError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Closed { .. } => Self::Closed,
            HostError::Broken { .. } | HostError::SyncFailed { .. } | HostError::Behind => {
                Self::unavailable(error.to_string())
            }
            error => Self::Open(error),
        }
    }
}

impl SpoolError {
    /// Whether files are damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Open(HostError::Corrupt { .. }))
    }

    /// Whether a retry can succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Unavailable { .. })
    }

    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }
}
