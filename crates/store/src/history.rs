//! The history of metrics, taken from another program: finished slots of all stages, for a store that may be in use.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::MetricConfig;

use crate::StoreError;

/// The slots of one stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryStage {
    /// Seconds per slot.
    pub resolution: u32,
    /// Known slots in the order of time, each with its start in seconds since the epoch and its value. The value is the
    /// one that readers got or, if there are `counts`, the one that is stored. Never NaN.
    pub points: Vec<(u32, f64)>,
    /// In a coarse stage, the number of raw slots that each point was folded from. Empty if this is not known for all
    /// points.
    pub counts: Vec<u32>,
}

/// The history of one metric.
#[derive(Debug, Clone)]
pub struct History {
    /// The canonical name.
    pub name: String,
    /// The configuration for a new metric. An existing metric keeps its own.
    pub config: Arc<MetricConfig>,
    /// Its stages, the finest first. They may differ from those of the configuration.
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
    /// A slot of the history replaces one that is stored already. Otherwise the stored point stays.
    pub overwrites: bool,
    /// Counts what would be done and changes nothing.
    pub dry_run: bool,
}

/// What became of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryReport {
    /// The metric did not exist.
    pub created: bool,
    /// The metric existed, and its retention, method or factor differs from that of the history.
    pub differs: bool,
    /// Points that were stored.
    pub stored: u64,
    /// Points whose slot already had a value, be it another or the same. The stored value stays.
    pub kept: u64,
    /// Windows that were folded again from stored and imported points.
    pub folded: u64,
    /// Points of stages that the metric does not have and no stage can take, and points that have expired.
    pub left_out: u64,
    /// Why nothing was stored; empty if it was.
    pub refused: String,
}

/// Stages that a history is stored into while other points of the metrics may arrive.
#[async_trait]
pub trait HistorySink: Send + Sync + Debug {
    /// Stores histories of different metrics. The reports have the order of the histories. Repeating the call changes
    /// nothing.
    ///
    /// # Errors
    /// If the store fails. Some of the histories may be stored by then.
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
