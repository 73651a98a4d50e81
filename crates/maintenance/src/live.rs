//! What is alive: answered by the process that writes.

use std::fmt::Debug;

use async_trait::async_trait;
use plumbago_store::StoreError;

/// The metrics that a process writes.
#[async_trait]
pub trait LiveMetrics: Send + Sync + Debug {
    /// Which of the metrics got a point since `since` (seconds since the epoch) or are being created,
    /// in the order asked.
    async fn are_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError>;

    /// True when a metric that is known here lies below the directory; false says nothing.
    fn is_known_above(&self, directory: &str) -> bool;

    /// Forgets metrics that got no point since `since`: head, state row, index. Whether one got a point
    /// is decided in the same step, so a point comes either before it, and the metric stays, or after
    /// it, and creates the metric anew. Says which are forgotten, in the order asked; one that was never
    /// known counts as forgotten.
    async fn forget(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError>;
}

/// No process writes: the commands work on a store that is at rest, or leave it to others to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyWrites;

#[async_trait]
impl LiveMetrics for NobodyWrites {
    async fn are_written(&self, names: &[&str], _: i64) -> Result<Vec<bool>, StoreError> {
        Ok(vec![false; names.len()])
    }

    fn is_known_above(&self, _: &str) -> bool {
        false
    }

    async fn forget(&self, names: &[&str], _: i64) -> Result<Vec<bool>, StoreError> {
        Ok(vec![true; names.len()])
    }
}
