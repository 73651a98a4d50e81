//! When the driver sends a request again by itself: as it always does, and one case more.

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{DefaultRetryPolicy, RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// How often a server may forget a statement between its preparation and its use. A cache that is full of
/// statements in use lets a new one in by chance, once in 128 times; the timeout of requests ends it too.
const FORGOTTEN_MAX: u32 = 1000;

/// The driver prepares once more what a server has forgotten, and gives up when it is forgotten again.
/// Servers do that: after a change of the schema, when many requests prepare one statement at once, and
/// when their cache of statements is full (10 MiB of it with a small heap). The request was not run, so any may
/// be sent again.
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
