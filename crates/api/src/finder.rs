//! Lookup of names outside this process's index.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;
use plumbago_index::{FindLimits, Node};

/// Finds names for a process that does not hold all of them in memory. Globs have the same meaning as in
/// the index.
#[boxed_futures]
pub trait NameFinder: Send + Sync + Debug {
    /// Returns the metrics and directories that match a glob, sorted by path, without duplicates. With
    /// `leaves_only` it returns only metrics.
    ///
    /// # Errors
    ///
    /// [`FinderError::TooLarge`] if the glob exceeds a limit, [`FinderError::Unavailable`] if the names
    /// cannot be read.
    async fn find(
        &self,
        query: &str,
        leaves_only: bool,
        limits: &FindLimits,
    ) -> Result<Vec<Node>, FinderError>;
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum FinderError {
    /// The search exceeds a limit; the text says which.
    #[error("{0}")]
    TooLarge(String),
    /// The names cannot be read at the moment, or the glob is not supported. The text gives the cause.
    #[error("{0}")]
    Unavailable(String),
}
