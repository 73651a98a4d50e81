//! Which metrics may have points in a range of time, so that a find can hide the others.

use std::fmt::Debug;

use async_trait::async_trait;
use plumbago_store::FetchError;

/// A range of time that a find is asked for, in seconds since the epoch. Both ends are part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindRange {
    /// The start; `i64::MIN` for none.
    pub from: i64,
    /// The end; `i64::MAX` for none.
    pub until: i64,
}

/// Tells which metrics may have points.
#[async_trait]
pub trait Activity: Send + Sync + Debug {
    /// Whether each metric may have points in the range, in the order of `names`. True where that is not known.
    ///
    /// # Errors
    /// If the process is shutting down.
    async fn are_active(&self, names: &[&str], range: FindRange) -> Result<Vec<bool>, FetchError>;
}
