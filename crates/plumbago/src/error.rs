//! Failures and the exit code that each gives.

use std::fmt;

/// What the exit code tells the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "the codes are a promise; not every verb that gives them is here yet")]
pub enum Exit {
    /// 1: something went wrong inside.
    Internal = 1,
    /// 2: the command line is wrong (clap uses the same code).
    Usage = 2,
    /// 3: the configuration or the storage rules are wrong.
    Config = 3,
    /// 4: the store cannot be opened or reached.
    Store = 4,
    /// 5: the data has a problem that was looked for and found.
    Data = 5,
}

/// Why a command failed, and its exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong; printed with its causes, unless there is nothing left to say.
    pub error: Option<anyhow::Error>,
}

impl Failure {
    /// A failure with a reason.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: Some(error.into()) }
    }

    /// A failure whose reason was printed already.
    pub fn said(exit: Exit) -> Self {
        Self { exit, error: None }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Internal, error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Internal, error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{error:#}"),
            None => Ok(()),
        }
    }
}
