//! What can go wrong on the way to a running node.

use std::path::PathBuf;

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A program or a file that the machine lacks.
    #[error("not to be had: {0}")]
    Missing(String),
    /// The jars could not be fetched.
    #[error("cannot get Cassandra's jars with Maven: {0}")]
    Fetch(String),
    /// The node ended, or never answered.
    #[error("Cassandra did not start: {reason}; its log is {}:\n{tail}", log.display())]
    Start {
        /// What was seen.
        reason: String,
        /// Where the whole log is.
        log: PathBuf,
        /// The end of it.
        tail: String,
    },
    /// The server said no.
    #[error("the server refuses (code {code:#06x}): {message}")]
    Cql {
        /// The protocol's error code.
        code: i32,
        /// The server's words.
        message: String,
    },
    /// The answer could not be read.
    #[error("not the native protocol: {0}")]
    Protocol(&'static str),
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
}

impl NodeError {
    /// For `map_err`: an I/O error with what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
