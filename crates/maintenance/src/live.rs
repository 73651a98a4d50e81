//! The trait through which jobs learn which metrics this process is writing.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{MetricMeta, StoreError};

/// The metrics that a process writes.
#[boxed_futures]
pub trait LiveMetrics: Send + Sync + Debug {
    /// Whether each metric got a point since `since` (seconds since the epoch) or is being created, in the
    /// order of `names`.
    ///
    /// # Errors
    /// If the process is shutting down.
    async fn are_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError>;

    /// Whether a metric below the directory is loaded. `false` does not mean that there is none.
    fn is_known_above(&self, directory: &str) -> bool;

    /// Unloads metrics that got no point since `since` (seconds since the epoch): their heads, state rows and
    /// index entries. The check and the unloading are one step. A point that arrives before it keeps the
    /// metric loaded; one that arrives later creates the metric again. Returns for each metric, in the order
    /// of `names`, whether it is not loaded now. That includes metrics that were never loaded.
    ///
    /// # Errors
    /// If the process is shutting down.
    async fn forget(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError>;

    /// Returns for each metric, in the order of `names`, the time (seconds since the epoch) before which all
    /// its windows are closed. The process stores none of those windows again, except for late points.
    ///
    /// # Errors
    ///
    /// If the process is shutting down.
    async fn closed_until(&self, names: &[&str]) -> Result<Vec<i64>, StoreError>;

    /// Begins to delete whole metrics: drops their points in memory and writes the removal to the journal.
    /// Returns for each metric, in the order of `names`, whether the deletion has begun. It cannot begin
    /// while a part of the metric is on its way to the store; call again in a moment. Points that arrive
    /// later create a new metric, none of whose points go to the stores before
    /// [`LiveMetrics::end_deletions`]. So every deletion that has begun has to be ended. The default
    /// implementation is for processes that write nothing.
    ///
    /// # Errors
    /// If the process is shutting down.
    async fn begin_deletions(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        Ok(vec![true; names.len()])
    }

    /// Ends deletions that have begun, and drops responses that were kept for repeated requests.
    ///
    /// # Errors
    /// If the process is shutting down.
    async fn end_deletions(&self, _names: &[&str]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Loads metrics again whose deletion has failed and was ended.
    ///
    /// # Errors
    /// If the process is shutting down.
    async fn put_back(&self, _metrics: &[MetricMeta]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// No live metrics. For commands on a store to which this process does not write.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyWrites;

#[boxed_futures]
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

    async fn closed_until(&self, names: &[&str]) -> Result<Vec<i64>, StoreError> {
        Ok(vec![i64::MAX; names.len()])
    }
}
