//! How much space points take, in stores that can measure it.

use std::fmt::Debug;

use async_trait::async_trait;
use plumbago_model::{MetricId, Stage};

use crate::StoreError;

/// Measures how much space the points of metrics take.
#[async_trait]
pub trait StageSizes: Send + Sync + Debug {
    /// Returns for each metric the bytes of each of its stages: keys and compressed rows as they were written, without
    /// the overhead and the savings of the database around them.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn sizes(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<Vec<Vec<u64>>, StoreError>;
}
