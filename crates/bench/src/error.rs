use std::io;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file, a socket or a child process failed.
    #[error("{action}: {source}")]
    Io {
        /// What was attempted, with the address or path.
        action: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A request got no answer: the connection failed, or the answer was not HTTP.
    #[error("request {url}: {source}")]
    Request {
        /// The URL of the request.
        url: String,
        /// What went wrong.
        source: Box<ureq::Error>,
    },
    /// The server answered a query with an error.
    #[error("{query}: the server answered {status}: {body}")]
    Refused {
        /// The query that was refused.
        query: String,
        /// HTTP status code.
        status: u16,
        /// The answer's text.
        body: String,
    },
    /// The spawned daemon ended before it was ready.
    #[error("the daemon ended while starting ({0}); its messages are above")]
    Ended(std::process::ExitStatus),
    /// Something did not happen within its time limit.
    #[error("timed out after {seconds} s while waiting {what}")]
    Timeout {
        /// What the wait was for, like `for the daemon to stop`.
        what: &'static str,
        /// How long the wait was, in seconds.
        seconds: u64,
    },
}

impl BenchError {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}
