//! Copies of metrics under other names, while points of both may arrive.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::StoreError;

/// A metric, and the name that it gets too.
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
    /// The copied slots win over those that a metric of the new name has in the store. Otherwise these stay.
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
    /// Those whose slot was known already under the new name.
    pub kept: u64,
    /// Windows folded anew because they have points of both.
    pub folded: u64,
    /// Those that have expired, or that no stage of the new metric takes.
    pub left_out: u64,
    /// The deletion of the metric has begun. The caller deletes it from the stores, and ends the deletion.
    pub is_going: bool,
    /// It was to be deleted, and stays, since it goes on getting points. Those that it had before are copied.
    pub stays: bool,
    /// Why nothing was copied; empty if it was. A short reason stands before the first colon.
    pub refused: String,
}

/// Copies metrics.
#[async_trait]
pub trait MetricCopier: Send + Sync + Debug {
    /// Copies metrics, all stages with values and counts, to different names. None of the new names is one of the old
    /// ones. The reports have the same order. Repeating it counts nothing twice.
    ///
    /// # Errors
    /// If the store fails. Some of the metrics may be copied by then; no deletion has begun then.
    async fn copy_metrics(
        &self,
        copies: Vec<MetricCopy>,
        options: CopyOptions,
    ) -> Result<Vec<CopyReport>, StoreError>;
}
