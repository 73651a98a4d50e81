//! Changes the settings of metrics that have points, and creates metrics.

use std::fmt::Debug;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::MetricConfig;

use crate::StoreError;

/// A metric and its new settings.
#[derive(Debug, Clone)]
pub struct SettingsChange {
    /// The canonical name.
    pub name: String,
    /// The new settings.
    pub config: Arc<MetricConfig>,
}

/// The result of a [`SettingsChange`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsReport {
    /// Whether the metric has the new settings now and did not have them before.
    pub changed: bool,
    /// Number of slots and windows that were written into new stages.
    pub points: u64,
    /// Whether nothing was done because points of the metric are waiting for the store. The caller should
    /// repeat the call later.
    pub is_busy: bool,
    /// The reason why nothing was changed; empty if the settings were changed or did not differ.
    pub refused: String,
}

/// Gives metrics other settings while points of them may arrive.
#[boxed_futures]
pub trait SettingsChanger: Send + Sync + Debug {
    /// The settings with which points of these metrics are stored now; `None` for a metric that was not used
    /// since the start. The settings in the metadata store may be different: after a kill during a change, or
    /// if another daemon has changed them.
    ///
    /// # Errors
    /// If the daemon is stopping.
    async fn settings_in_use(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, StoreError>;

    /// Changes the settings of metrics, each at most once. The reports have the order of the changes. New stages are
    /// filled from the old ones. Repeating the call changes nothing.
    ///
    /// # Errors
    /// If the store fails. Each of the metrics then has its old or its new settings, and all its points.
    async fn change_settings(&self, changes: Vec<SettingsChange>) -> Result<Vec<SettingsReport>, StoreError>;
}

/// The result of creating a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Creation {
    /// The metric was created.
    Created,
    /// The metric existed with these settings, which are not changed.
    Known(Arc<MetricConfig>),
    /// The metric exists, but is not in the metadata store yet: its first points have just arrived.
    Starting,
    /// The metric was not created, for this reason.
    Refused(String),
}

/// Creates metrics that have no points yet.
#[boxed_futures]
pub trait MetricCreator: Send + Sync + Debug {
    /// Creates metrics with these settings, each at most once. The results have the order of the metrics. A dry run
    /// changes nothing.
    ///
    /// # Errors
    /// If the store fails. Some of the metrics may already be created.
    async fn create_metrics(
        &self,
        metrics: Vec<SettingsChange>,
        dry_run: bool,
    ) -> Result<Vec<Creation>, StoreError>;
}
