//! Measures how much space points use, in stores that can do so.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricId, Stage};

use crate::StoreError;

/// Measures how much space the points of metrics use.
#[boxed_futures]
pub trait StageSizes: Send + Sync + Debug {
    /// Returns for each metric the size of each of its stages in bytes. This is the size of keys and
    /// compressed rows as they were written, without the overhead and the compression of the database itself.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn sizes(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<Vec<Vec<u64>>, StoreError>;
}
