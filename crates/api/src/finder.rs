//! Names that are found elsewhere than in the index of this process.

use std::fmt::Debug;

use async_trait::async_trait;
use plumbago_index::{FindLimits, Node};

/// Finds names for a node that does not keep all of them in memory. What a glob means is the same.
#[async_trait]
pub trait NameFinder: Send + Sync + Debug {
    /// The metrics and directories that a glob means, sorted by path, each once; only the metrics when
    /// `leaves_only`.
    async fn find(
        &self,
        query: &str,
        leaves_only: bool,
        limits: &FindLimits,
    ) -> Result<Vec<Node>, FinderError>;
}

/// Why a search gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum FinderError {
    /// It asks for more than is allowed.
    #[error("{0}")]
    TooLarge(String),
    /// It cannot be answered now, or not so.
    #[error("{0}")]
    Unavailable(String),
}
