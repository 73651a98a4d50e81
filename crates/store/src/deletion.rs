//! Deletes a time range of metrics that may be in use.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;

use crate::StoreError;

/// A time range in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The start, inclusive.
    pub from: u32,
    /// The end, exclusive; `u32::MAX` for no end.
    pub until: u32,
}

/// The effect of deleting a range on one metric; in a dry run, the effect that it would have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeReport {
    /// Whether the metric exists.
    pub exists: bool,
    /// Whether nothing was done, because points of the metric have been waiting for the store for seconds.
    /// The caller should repeat the call.
    pub is_busy: bool,
    /// Number of points of the raw stage in the range. Only a dry run counts the points in the store.
    pub points: u64,
    /// Number of windows of coarser stages that lie entirely within the range. Only a dry run counts them.
    pub windows: u64,
    /// Number of windows at the ends of the range that were computed again from the remaining points.
    pub folded: u64,
    /// Number of windows at the ends of the range that are not changed, because the slots from which they
    /// were computed have expired.
    pub kept: u64,
}

/// Deletes time ranges while points of the metrics may arrive.
#[boxed_futures]
pub trait RangeDeleter: Send + Sync + Debug {
    /// Deletes a range of different metrics, in memory and in the store. Points accepted afterwards stay. The
    /// reports are in the order of `names`. Repeating the call changes nothing.
    ///
    /// # Errors
    /// If the store fails. A part may already be deleted, so repeat the call.
    async fn delete_range(
        &self,
        names: &[&str],
        range: TimeRange,
        dry_run: bool,
    ) -> Result<Vec<RangeReport>, StoreError>;
}
