//! Deleting a range of time, of metrics that may be in use.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::StoreError;

/// A range of time in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The start, inclusive.
    pub from: u32,
    /// The end, exclusive; `u32::MAX` for no end.
    pub until: u32,
}

/// What deleting a range did to one metric; in a dry run, what it would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeReport {
    /// There is such a metric.
    pub exists: bool,
    /// Nothing was done: points of the metric have been on their way to the store for seconds. Ask again.
    pub is_busy: bool,
    /// Points of the raw stage in the range. Only a dry run counts those in the store.
    pub points: u64,
    /// Windows of coarser stages that lie entirely within the range. Only a dry run counts them.
    pub windows: u64,
    /// Windows at the borders of the range that were folded again from what is left.
    pub folded: u64,
    /// Windows at the borders of the range that stay as they are, because the slots they were folded from have
    /// expired.
    pub kept: u64,
}

/// Deletes ranges of time while points of the metrics may arrive.
#[async_trait]
pub trait RangeDeleter: Send + Sync + Debug {
    /// Deletes a range of different metrics, in memory and in the store. Points accepted afterwards stay. The reports
    /// are in the order of `names`. Repeating it changes nothing.
    ///
    /// # Errors
    /// If the store fails. Repeat the call then: a part may be deleted.
    async fn delete_range(
        &self,
        names: &[&str],
        range: TimeRange,
        dry_run: bool,
    ) -> Result<Vec<RangeReport>, StoreError>;
}
