//! How metrics are kept, for those who ask.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::MetricConfig;

/// Knows the retentions of metrics.
#[async_trait]
pub trait Metadata: Send + Sync + Debug {
    /// How each of the metrics is kept, `None` for those that are not there.
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError>;
}

/// Why that cannot be said now.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MetadataError(pub String);

/// For servers that know of no retentions.
#[derive(Debug)]
pub struct NoMetadata;

#[async_trait]
impl Metadata for NoMetadata {
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError> {
        Ok(vec![None; names.len()])
    }
}
