//! Why a verb did not finish, and what a caller can do about it.

use std::path::PathBuf;

use plumbago_store::{FetchError, StoreError};
use serde::{Deserialize, Serialize};

use crate::backup::BackupError;
use crate::job::JobError;

/// Why a verb did not finish.
#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    /// The parameters cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// Another run does this work.
    #[error(
        "{0} is running already, in this process or another one; wait until it ends and run the command again"
    )]
    Taken(String),
    /// The run was cancelled.
    #[error("cancelled; the work done so far is kept. The same command continues with the rest")]
    Cancelled,
    /// A maintenance job failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The store failed in the middle of an import. The same command continues with the rest.
    #[error(
        "{}. Everything stored so far is kept. Remove the cause and run the same command again: it continues",
        with_causes(.0)
    )]
    Interrupted(StoreError),
    /// A disk has no room for the files of an import. The same command continues with the rest.
    #[error("the disk of {} is full: {why}. Make room and run the same command again: it continues", path.display())]
    DiskFull {
        /// What was to be written.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The server that is imported cannot be reached.
    #[error("{0}. Run the same command again later: it continues")]
    Away(String),
    /// Points cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// No metric is selected.
    #[error("there is no such metric")]
    NotFound,
    /// A backup failed.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Something else failed.
    #[error("{0}")]
    Failed(String),
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Give other parameters.
    Invalid,
    /// Repeat the command: nothing failed.
    Cancelled,
    /// Repair the store or wait for it, and repeat the command.
    Store,
    /// No metric matches: name others.
    NotFound,
    /// Look at the files that the message names: they are damaged or missing.
    Data,
    /// Read the message.
    Failed,
}

impl VerbError {
    /// The kind of the error.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Invalid(_) | Self::Job(JobError::Selection { .. }) => FailureKind::Invalid,
            Self::Cancelled | Self::Job(JobError::Stopped { .. }) => FailureKind::Cancelled,
            Self::Taken(_) | Self::Store(_) | Self::Interrupted(_) | Self::Fetch(_) | Self::Job(_) => {
                FailureKind::Store
            }
            Self::DiskFull { .. } | Self::Away(_) => FailureKind::Store,
            Self::NotFound => FailureKind::NotFound,
            Self::Backup(error) => match error {
                BackupError::Invalid(_) => FailureKind::Invalid,
                BackupError::Cancelled => FailureKind::Cancelled,
                BackupError::Damaged(_) | BackupError::NotFound(_) => FailureKind::Data,
                _ => FailureKind::Store,
            },
            Self::Failed(_) => FailureKind::Failed,
        }
    }

    /// The error with all its causes.
    pub fn text(&self) -> String {
        with_causes(self)
    }
}

/// An error with all its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_away_is_like_a_store_that_is_away() {
        let error = VerbError::Away("no answer".to_owned());
        assert_eq!(error.kind(), FailureKind::Store);
        assert!(error.text().ends_with("it continues"));
    }
}
