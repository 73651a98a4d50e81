//! The retry policy of the driver: its default policy, plus retries for statements that a server forgot.

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{DefaultRetryPolicy, RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// How many times one request is retried because the server forgot its statement. A cache that is full of
/// statements in use keeps a new one only by chance, in about one of 128 attempts. The request timeout also
/// ends the retries.
const FORGOTTEN_MAX: u32 = 1000;

/// Retries requests whose prepared statement the server has forgotten. The driver itself prepares it once
/// more and then gives up. A server can forget it again after a schema change, when many requests prepare
/// the same statement at once, and when its statement cache (10 MiB with a small heap) is full. The server
/// did not execute the request, so a retry is safe even if it is not idempotent.
#[derive(Debug, Default)]
pub(crate) struct Persistent(DefaultRetryPolicy);

struct Attempts {
    usual: Box<dyn RetrySession>,
    forgotten: u32,
}

impl RetryPolicy for Persistent {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Attempts { usual: self.0.new_session(), forgotten: 0 })
    }
}

impl RetrySession for Attempts {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        if !matches!(request.error, RequestAttemptError::DbError(DbError::Unprepared { .. }, _)) {
            return self.usual.decide_should_retry(request);
        }
        self.forgotten += 1;
        if self.forgotten > FORGOTTEN_MAX {
            return RetryDecision::DontRetry;
        }
        RetryDecision::RetrySameTarget(None)
    }

    fn reset(&mut self) {
        self.usual.reset();
        self.forgotten = 0;
    }
}
