//! Compares existing metrics with the rules, which apply only when a metric is created.

use std::sync::Arc;

use plumbago_model::MetricConfig;

use crate::verb::{VerbError, Work};

/// An existing metric, and the settings that the rules would give it.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The present settings of the metric.
    pub config: Arc<MetricConfig>,
    /// The settings by the rules, as this store keeps them.
    pub wanted: Arc<MetricConfig>,
    /// When the metric was created, in seconds since the epoch.
    pub created_on: u32,
    /// Whether `plumbago rules apply` would change the metric.
    pub differs: bool,
    /// Why `plumbago rules apply` would not change the metric, although its settings differ.
    pub refused: Option<String>,
}

/// Compares a metric with the rules that `work` has. `None` if there is no such metric.
///
/// # Errors
/// If the store cannot be read.
pub async fn known(work: &Work, name: &str) -> Result<Option<Known>, VerbError> {
    let metadata = &work.stores.metadata;
    let Some(meta) = metadata.get(&[name]).await?.pop().flatten() else { return Ok(None) };
    let in_use = work.histories.settings_in_use(&[name]).await?.pop().flatten();
    let in_use = in_use.unwrap_or_else(|| Arc::clone(&meta.config));
    let config = work.histories.config_for(name);
    let wanted = metadata.as_read(Arc::clone(&config));
    let differs = wanted != meta.config || wanted != in_use;
    let refused = match differs.then(|| config.refuses_points_of(&in_use)).flatten() {
        None if differs => work.histories.refuses(&config).await?,
        refused => refused,
    };
    Ok(Some(Known { config: in_use, wanted, created_on: meta.created_on, differs, refused }))
}
