//! Copies of metrics under other names, while points of both may arrive.

use std::fmt::Debug;

use async_trait::async_trait;

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
    /// The copied slots replace those that a metric of the new name has in the store. Otherwise the slots of that
    /// metric stay.
    pub overwrites: bool,
    /// The deletion of each metric begins once its copy is whole and durable.
    pub moves: bool,
    /// Counts what would be done and changes nothing.
    pub dry_run: bool,
}

/// What became of a [`MetricCopy`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// The metric of the new name did not exist.
    pub created: bool,
    /// Slots and windows that were stored.
    pub stored: u64,
    /// Slots and windows that the metric of the new name already had, so that they were not stored.
    pub kept: u64,
    /// Windows that were folded again because both metrics have points in them.
    pub folded: u64,
    /// Slots and windows that have expired, or for which the new metric has no stage.
    pub left_out: u64,
    /// The deletion of the metric has begun. The caller deletes it from the stores, and ends the deletion.
    pub is_going: bool,
    /// The metric was to be deleted but stays, because it keeps getting points. Its earlier points are copied.
    pub stays: bool,
    /// Why nothing was copied; empty if it was. The text before the first colon is a short form of the reason.
    pub refused: String,
}

/// Copies metrics.
#[async_trait]
pub trait MetricCopier: Send + Sync + Debug {
    /// Copies metrics with all stages, values and counts. The names must all be different, and no new name may be one
    /// of the old ones. The reports have the order of `copies`. Repeating the call counts nothing twice.
    ///
    /// # Errors
    /// If the store fails. Some of the metrics may be copied by then, but no deletion has begun.
    async fn copy_metrics(
        &self,
        copies: Vec<MetricCopy>,
        options: CopyOptions,
    ) -> Result<Vec<CopyReport>, StoreError>;
}
