//! Access to the settings of metrics: retention, aggregation method and xFilesFactor. Single settings have
//! the keys of graphite-web's metadata calls, of which `aggregationMethod` is the only one.

use std::fmt::Debug;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::MetricConfig;

/// Looks up and changes the settings of metrics.
#[boxed_futures]
pub trait Metadata: Send + Sync + Debug {
    /// Returns the settings of each metric in the order of `names`, with `None` for a metric that does not
    /// exist.
    ///
    /// # Errors
    ///
    /// `MetadataError` if the store cannot be read at the moment.
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError>;

    /// Returns the value of a setting of each metric, in the order of `names`.
    ///
    /// # Errors
    ///
    /// For each metric: if there is no such metric or setting, or it cannot be read at the moment.
    async fn settings(&self, names: &[&str], key: &str) -> Vec<Result<String, MetadataError>>;

    /// Changes a setting of a metric. Returns the old value.
    ///
    /// # Errors
    ///
    /// If there is no such metric or setting, if it cannot have this value, or if it cannot be changed at the
    /// moment.
    async fn set(&self, name: &str, key: &str, value: &str) -> Result<String, MetadataError>;
}

/// Why settings were not read or changed, as a sentence for the client.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct MetadataError(pub String);

/// For servers without a metadata store: no metric has settings.
#[derive(Debug)]
pub struct NoMetadata;

#[boxed_futures]
impl Metadata for NoMetadata {
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError> {
        Ok(vec![None; names.len()])
    }

    async fn settings(&self, names: &[&str], _: &str) -> Vec<Result<String, MetadataError>> {
        names.iter().map(|name| Err(MetadataError(format!("there is no metric {name:?}")))).collect()
    }

    async fn set(&self, name: &str, _: &str, _: &str) -> Result<String, MetadataError> {
        Err(MetadataError(format!("there is no metric {name:?}")))
    }
}
