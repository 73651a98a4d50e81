//! Converts the driver's errors into `StoreError`.

use plumbago_store::{ErrorKind, StoreError};
use scylla::errors::{
    DbError, ExecutionError, NewSessionError, PrepareError, RequestAttemptError, UseKeyspaceError,
};

/// The error of a request that failed.
pub(crate) fn request(operation: impl Into<String>, error: ExecutionError) -> StoreError {
    StoreError::with(kind_of_execution(&error), operation, error)
}

/// The error of a statement that could not be prepared.
pub(crate) fn prepare(operation: impl Into<String>, error: PrepareError) -> StoreError {
    StoreError::with(kind_of_prepare(&error), operation, error)
}

/// The error of a connection that could not be established.
pub(crate) fn connect(operation: impl Into<String>, error: NewSessionError) -> StoreError {
    StoreError::with(ErrorKind::Unavailable, operation, error)
}

/// The error of a result that does not have the expected columns or types: the table does not have our
/// schema.
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

/// Missing permissions and other problems that an operator has to solve count as `Unavailable`, so that
/// points are retried.
fn kind_of_answer(error: &DbError) -> ErrorKind {
    match error {
        DbError::WriteTimeout { .. } | DbError::ReadTimeout { .. } => ErrorKind::Timeout,
        DbError::Overloaded | DbError::RateLimitReached { .. } => ErrorKind::Overloaded,
        DbError::SyntaxError | DbError::Invalid | DbError::AlreadyExists { .. } => ErrorKind::Invalid,
        DbError::ProtocolError | DbError::FunctionFailure { .. } => ErrorKind::Internal,
        _ => ErrorKind::Unavailable,
    }
}

/// Whether the role of this daemon lacks the right for the request.
pub(crate) fn is_denied(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Unauthorized, _)))
}

/// Whether the server refused the statement itself, as it does if a table or column is missing.
pub(crate) fn is_invalid(error: &StoreError) -> bool {
    error.kind == ErrorKind::Invalid
}

#[cfg(test)]
mod tests {
    use scylla::errors::WriteType;
    use scylla::statement::Consistency;

    use super::*;

    /// The errors of a server whose disk is full, or whose replicas cannot write, are all retried without
    /// limit.
    #[test]
    fn a_server_in_trouble_is_retried() {
        let (consistency, write_type) = (Consistency::LocalQuorum, WriteType::UnloggedBatch);
        let answers = [
            DbError::Overloaded,
            DbError::ServerError,
            DbError::IsBootstrapping,
            DbError::Unavailable { consistency, required: 2, alive: 1 },
            DbError::WriteTimeout { consistency, received: 1, required: 2, write_type: write_type.clone() },
            DbError::WriteFailure { consistency, received: 1, required: 2, numfailures: 1, write_type },
        ];
        for answer in answers {
            let text = answer.to_string();
            let attempt = RequestAttemptError::DbError(answer, String::new());
            let error = request("write", ExecutionError::LastAttemptError(attempt));
            assert!(error.is_transient(), "{text}: {:?}", error.kind);
        }
        let silent = request("write", ExecutionError::RequestTimeout(std::time::Duration::from_secs(3)));
        assert_eq!(silent.kind, ErrorKind::Timeout);
    }
}
