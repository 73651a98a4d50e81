//! Errors when starting or using a node, or another server in Java.

use std::path::PathBuf;

/// Why a node could not be started or used.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The machine lacks a program, a file or a free address.
    #[error("missing on this machine: {0}")]
    Missing(String),
    /// The jars could not be downloaded.
    #[error("failed to download jars with Maven: {0}")]
    Fetch(String),
    /// The node ended or did not answer in time.
    #[error("the server did not start: {reason}; its log is {}:\n{tail}", log.display())]
    Start {
        /// What happened.
        reason: String,
        /// The path of the whole log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The server answered a request with an error.
    #[error("the server reported an error (code {code:#06x}): {message}")]
    Cql {
        /// The protocol's error code.
        code: i32,
        /// The server's message.
        message: String,
    },
    /// The response does not follow the native protocol.
    #[error("invalid response from the server: {0}")]
    Protocol(&'static str),
    /// The operating system reported an error.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted, for example `starting Java`.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
}

impl NodeError {
    /// Returns a function for `map_err` that adds to an I/O error what was attempted.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
