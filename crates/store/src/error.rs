//! What went wrong in a store, by what the caller does next.

use std::error::Error;
use std::fmt;

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The store cannot be reached or has no room: retry later.
    Unavailable,
    /// No answer in time: retry, the effect is unknown.
    Timeout,
    /// Slow down, then retry.
    Overloaded,
    /// The call is wrong: fix it, do not retry.
    Invalid,
    /// Stored data is damaged: repair.
    Corrupt,
    /// The store was closed.
    Closed,
    /// A bug or an unknown failure.
    Internal,
}

/// A failed store operation.
#[derive(Debug)]
pub struct StoreError {
    /// What the caller does next.
    pub kind: ErrorKind,
    /// What was tried, as a fragment that follows "failed to".
    pub operation: String,
    /// The cause, when there is one.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error without a cause below it.
    pub fn new(kind: ErrorKind, operation: impl Into<String>) -> Self {
        Self { kind, operation: operation.into(), source: None }
    }

    /// An error with its cause.
    pub fn with(
        kind: ErrorKind,
        operation: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { kind, operation: operation.into(), source: Some(source.into()) }
    }

    /// True when trying again later can succeed.
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
