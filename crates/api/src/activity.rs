//! Which metrics may have points in a time range, so that a find can hide the others.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::FetchError;

/// A time range of a find request, in seconds since the epoch. Both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindRange {
    /// The first second, since the epoch; `i64::MIN` if the range has no start.
    pub from: i64,
    /// The last second, since the epoch; `i64::MAX` if the range has no end.
    pub until: i64,
}

/// Tells which metrics may have points.
#[boxed_futures]
pub trait Activity: Send + Sync + Debug {
    /// For each metric, in the order of `names`: whether it may have points in the range. True if that is not
    /// known.
    ///
    /// # Errors
    ///
    /// If the process is shutting down.
    async fn are_active(&self, names: &[&str], range: FindRange) -> Result<Vec<bool>, FetchError>;
}
