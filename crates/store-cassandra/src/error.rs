//! The driver's errors, by what the caller does next.

use plumbago_store::{ErrorKind, StoreError};
use scylla::errors::{
    DbError, ExecutionError, NewSessionError, PrepareError, RequestAttemptError, UseKeyspaceError,
};

/// A failed request.
pub(crate) fn request(operation: impl Into<String>, error: ExecutionError) -> StoreError {
    StoreError::with(kind_of_execution(&error), operation, error)
}

/// A statement that the server would not prepare.
pub(crate) fn prepare(operation: impl Into<String>, error: PrepareError) -> StoreError {
    StoreError::with(kind_of_prepare(&error), operation, error)
}

/// A connection that could not be made.
pub(crate) fn connect(operation: impl Into<String>, error: NewSessionError) -> StoreError {
    StoreError::with(ErrorKind::Unavailable, operation, error)
}

/// An answer that is not of the form asked for: somebody else's table.
pub(crate) fn answer(
    operation: impl Into<String>,
    error: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    StoreError::with(ErrorKind::Corrupt, operation, error)
}

fn kind_of_execution(error: &ExecutionError) -> ErrorKind {
    match error {
        ExecutionError::RequestTimeout(_) => ErrorKind::Timeout,
        ExecutionError::EmptyPlan
        | ExecutionError::ConnectionPoolError(_)
        | ExecutionError::SchemaAgreementError(_)
        | ExecutionError::MetadataError(_) => ErrorKind::Unavailable,
        ExecutionError::PrepareError(error) => kind_of_prepare(error),
        ExecutionError::LastAttemptError(error)
        | ExecutionError::UseKeyspaceError(UseKeyspaceError::RequestError(error)) => kind_of_attempt(error),
        _ => ErrorKind::Internal,
    }
}

fn kind_of_prepare(error: &PrepareError) -> ErrorKind {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => kind_of_attempt(first_attempt),
        _ => ErrorKind::Unavailable,
    }
}

fn kind_of_attempt(error: &RequestAttemptError) -> ErrorKind {
    match error {
        RequestAttemptError::DbError(error, _) => kind_of_answer(error),
        RequestAttemptError::BrokenConnectionError(_) | RequestAttemptError::UnableToAllocStreamId => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Internal,
    }
}

/// What a person has to put right outside (rights, a table that is missing) counts as unavailable:
/// points wait for it.
fn kind_of_answer(error: &DbError) -> ErrorKind {
    match error {
        DbError::WriteTimeout { .. } | DbError::ReadTimeout { .. } => ErrorKind::Timeout,
        DbError::Overloaded | DbError::RateLimitReached { .. } => ErrorKind::Overloaded,
        DbError::SyntaxError | DbError::Invalid | DbError::AlreadyExists { .. } => ErrorKind::Invalid,
        DbError::ProtocolError | DbError::FunctionFailure { .. } => ErrorKind::Internal,
        _ => ErrorKind::Unavailable,
    }
}

/// True when the server says that the statement itself is wrong, as it does of a table or a column
/// that is not there.
pub(crate) fn is_invalid(error: &StoreError) -> bool {
    error.kind == ErrorKind::Invalid
}
