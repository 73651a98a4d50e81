//! Store errors, classified by how the caller reacts.

use std::error::Error;
use std::fmt;

/// The kind of an error, which determines how the caller reacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The store cannot be reached or is full. Retry later.
    Unavailable,
    /// No answer arrived in time, so the call may or may not have taken effect. Retry.
    Timeout,
    /// The store is overloaded. Slow down, then retry.
    Overloaded,
    /// The call itself is wrong. Do not retry.
    Invalid,
    /// Stored data is damaged and has to be repaired. Do not retry.
    Corrupt,
    /// The store was closed. Do not retry.
    Closed,
    /// A bug or an unknown failure. Do not retry.
    Internal,
}

/// A failed store operation.
#[derive(Debug)]
pub struct StoreError {
    /// The kind, which decides whether the caller retries.
    pub kind: ErrorKind,
    /// What failed, as a verb phrase that continues "failed to", such as "read points".
    pub operation: String,
    /// The underlying error, if any.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error without an underlying one. `operation` continues "failed to".
    pub fn new(kind: ErrorKind, operation: impl Into<String>) -> Self {
        Self { kind, operation: operation.into(), source: None }
    }

    /// An error caused by `source`. `operation` continues "failed to".
    pub fn with(
        kind: ErrorKind,
        operation: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { kind, operation: operation.into(), source: Some(source.into()) }
    }

    /// Whether a retry can succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Overloaded)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {}", self.operation)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
