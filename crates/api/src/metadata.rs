//! Access to the configuration of metrics: retention, aggregation method and xFilesFactor.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::MetricConfig;

/// Looks up the configuration of metrics.
#[async_trait]
pub trait Metadata: Send + Sync + Debug {
    /// Returns the configuration of each metric in the order of `names`, with `None` for a metric that does
    /// not exist.
    ///
    /// # Errors
    ///
    /// `MetadataError` if the store cannot be read at the moment.
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError>;
}

/// Why the configuration cannot be read at the moment, as a sentence for the client.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MetadataError(pub String);

/// For servers without a metadata store: no metric has a configuration.
#[derive(Debug)]
pub struct NoMetadata;

#[async_trait]
impl Metadata for NoMetadata {
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError> {
        Ok(vec![None; names.len()])
    }
}
