//! How a command fails: its error and its exit code.

use std::fmt;

use plumbago_telemetry::with_causes;

/// Exit codes of the process for failures. Success is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "the codes are a promise; not every command that returns them is here yet")]
pub enum Exit {
    /// 1: an internal error, or any failure that no other code fits.
    Internal = 1,
    /// 2: the command line is wrong. clap uses the same code.
    Usage = 2,
    /// 3: the configuration or the storage rules have errors.
    Config = 3,
    /// 4: the store cannot be opened or reached.
    Store = 4,
    /// 5: a check found a problem in the data.
    Data = 5,
}

/// Why a command failed, with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code of the process.
    pub exit: Exit,
    /// The error to print with its causes; `None` if it was printed already.
    pub error: Option<anyhow::Error>,
}

impl Failure {
    /// Makes a failure whose error `main` prints to standard error.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: Some(error.into()) }
    }

    /// Makes a failure whose error was printed already.
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
            Some(error) => f.write_str(&with_causes(&**error)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn no_cause_is_said_twice() {
        let refused = anyhow!("refused").context("io: refused").context("request /a: io: refused");
        let failure = Failure::new(Exit::Store, refused.context("no daemon"));
        assert_eq!(failure.to_string(), "no daemon: request /a: io: refused");
        let failure = Failure::new(Exit::Store, anyhow!("disk full").context("cannot write"));
        assert_eq!(failure.to_string(), "cannot write: disk full");
    }
}
