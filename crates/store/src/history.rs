//! The history of metrics from another program: finished slots of all stages, for a store that may be in use.

use std::fmt::Debug;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::MetricConfig;

use crate::StoreError;

/// The slots of one stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryStage {
    /// Seconds per slot.
    pub resolution: u32,
    /// Known slots in the order of time, each with its start in seconds since the epoch and its value. The
    /// value is the one that readers get or, if there are `counts`, the stored one. Never NaN.
    pub points: Vec<(u32, f64)>,
    /// In a coarse stage, the number of raw slots from which each point was computed. Empty if this is not
    /// known for all points.
    pub counts: Vec<u32>,
}

/// The history of one metric.
#[derive(Debug, Clone)]
pub struct History {
    /// The canonical name.
    pub name: String,
    /// The settings for a new metric. An existing metric keeps its own.
    pub config: Arc<MetricConfig>,
    /// The stages of the history, the finest first. They may differ from those of the settings.
    pub stages: Vec<HistoryStage>,
}

impl History {
    /// The number of points in all stages.
    pub fn points(&self) -> u64 {
        self.stages.iter().map(|stage| stage.points.len() as u64).sum()
    }
}

/// The content of one metric in a store, for copying it to another store.
#[derive(Debug, Clone)]
pub struct StoredMetric {
    /// All stages with values and counts.
    pub history: History,
    /// Points ahead of now, which have no slot yet: timestamp and value.
    pub ahead: Vec<(u32, f64)>,
}

/// How a history is combined with what is already stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryOptions {
    /// Whether a slot of the history replaces a stored one. Otherwise the stored point stays.
    pub overwrites: bool,
    /// Whether to count only what would be done and change nothing.
    pub dry_run: bool,
}

/// The result of storing a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryReport {
    /// Whether the metric was created, because it did not exist.
    pub created: bool,
    /// Whether the metric existed and its retention, method or factor differed from that of the history.
    pub differs: bool,
    /// Number of points that were stored.
    pub stored: u64,
    /// Number of points whose slot already had the same or another value. The stored value stays.
    pub kept: u64,
    /// Number of windows that were computed again from stored and imported points.
    pub folded: u64,
    /// Number of points that have expired, or that belong to a stage which the metric does not have and which
    /// cannot be converted to another stage.
    pub left_out: u64,
    /// The reason why nothing was stored; empty if the history was stored.
    pub refused: String,
}

/// Stores histories of metrics while other points of the metrics may arrive.
#[boxed_futures]
pub trait HistorySink: Send + Sync + Debug {
    /// Stores histories of different metrics. The reports have the order of the histories. Repeating the call changes
    /// nothing.
    ///
    /// # Errors
    /// If the store fails. Some of the histories may already be stored.
    async fn take(
        &self,
        histories: Vec<History>,
        options: HistoryOptions,
    ) -> Result<Vec<HistoryReport>, StoreError>;

    /// Reads all known slots of metrics, each with the value that readers get. `None` for a metric that does not
    /// exist.
    ///
    /// # Errors
    /// If the store fails.
    async fn histories(&self, names: &[&str]) -> Result<Vec<Option<History>>, StoreError>;
}
