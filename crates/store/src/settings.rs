//! Changes of the settings of metrics that have points.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::MetricConfig;

use crate::StoreError;

/// A metric, and the settings that it is to have.
#[derive(Debug, Clone)]
pub struct SettingsChange {
    /// The canonical name.
    pub name: String,
    /// The new settings.
    pub config: Arc<MetricConfig>,
}

/// What became of a [`SettingsChange`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsReport {
    /// The metric has the new settings now, and did not have them before.
    pub changed: bool,
    /// Slots and windows that were written into new stages.
    pub points: u64,
    /// Points of the metric are on their way to the store. Ask again in a moment.
    pub is_busy: bool,
    /// Why nothing was changed; empty if it was, or if nothing had to be.
    pub refused: String,
}

/// Gives metrics other settings while points of them may arrive.
#[async_trait]
pub trait SettingsChanger: Send + Sync + Debug {
    /// The settings with which points of these metrics are stored now; `None` for a metric that was not used since the start.
    /// Those in the metadata store differ after a kill in the middle of a change, and if another daemon has changed them.
    ///
    /// # Errors
    /// If the daemon is stopping.
    async fn settings_in_use(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, StoreError>;

    /// Changes different metrics. The reports have the same order. Stages that are new are filled from the old ones.
    /// Repeating it changes nothing.
    ///
    /// # Errors
    /// If the store fails. Each of the metrics has its old or its new settings then, with all its points.
    async fn change_settings(&self, changes: Vec<SettingsChange>) -> Result<Vec<SettingsReport>, StoreError>;
}

/// What became of a metric that was to be created.
#[derive(Debug, Clone, PartialEq)]
pub enum Creation {
    /// It was created.
    Created,
    /// It existed, with these settings, which stay.
    Known(Arc<MetricConfig>),
    /// It exists, but is not in the metadata store yet: its first points have just arrived.
    Starting,
    /// Why it was not created.
    Refused(String),
}

/// Creates metrics that have no points yet.
#[async_trait]
pub trait MetricCreator: Send + Sync + Debug {
    /// Creates different metrics with these settings. The results have the same order. A dry run changes nothing.
    ///
    /// # Errors
    /// If the store fails. Some of the metrics may be created by then.
    async fn create_metrics(
        &self,
        metrics: Vec<SettingsChange>,
        dry_run: bool,
    ) -> Result<Vec<Creation>, StoreError>;
}
