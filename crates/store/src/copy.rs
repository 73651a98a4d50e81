//! Copies of metrics under other names, while points of both may arrive.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;

use crate::StoreError;

/// A metric, and the name of its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricCopy {
    /// The canonical name of the metric.
    pub from: String,
    /// The canonical name of the copy. A metric of this name may exist.
    pub to: String,
}

/// How metrics are copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// Whether the copied slots replace those that a metric of the new name already has in the store.
    /// Otherwise the slots of that metric stay.
    pub overwrites: bool,
    /// Whether to delete each metric after its copy is complete and durable.
    pub moves: bool,
    /// Whether to count only what would be done and change nothing.
    pub dry_run: bool,
}

/// The result of a [`MetricCopy`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Whether the copy created the metric of the new name, because it did not exist.
    pub created: bool,
    /// Number of slots and windows that were stored.
    pub stored: u64,
    /// Number of slots and windows that the metric of the new name already had, so that they were not stored.
    pub kept: u64,
    /// Number of windows that were computed again because both metrics have points in them.
    pub folded: u64,
    /// Number of slots and windows that have expired, or for which the new metric has no stage.
    pub left_out: u64,
    /// Whether the deletion of the metric has begun. If so, the caller deletes it from the stores, and ends
    /// the deletion.
    pub is_going: bool,
    /// Whether the metric was to be deleted but stays, because it keeps getting points. Its earlier points
    /// are copied.
    pub stays: bool,
    /// The reason why nothing was copied; empty if the metric was copied. The text before the first colon is
    /// a short form of the reason.
    pub refused: String,
}

/// Copies metrics.
#[boxed_futures]
pub trait MetricCopier: Send + Sync + Debug {
    /// Copies metrics with all stages, values and counts. The names must all be different, and no new name may be one
    /// of the old ones. The reports have the order of `copies`. Repeating the call counts nothing twice.
    ///
    /// # Errors
    /// If the store fails. Some of the metrics may already be copied, but no deletion has begun.
    async fn copy_metrics(
        &self,
        copies: Vec<MetricCopy>,
        options: CopyOptions,
    ) -> Result<Vec<CopyReport>, StoreError>;
}
