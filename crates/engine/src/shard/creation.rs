//! The interface through which a shard creates metrics.

use std::sync::Arc;

use plumbago_model::MetricConfig;

use crate::quotas::Places;
use crate::stats::Reject;

/// Returns the settings that the storage rules give a new metric of this name.
pub type ConfigFor = Arc<dyn Fn(&str) -> Arc<MetricConfig> + Send + Sync>;

/// A metric that is to be created.
#[derive(Debug)]
pub(crate) struct NewMetric {
    /// The number of its head.
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) config: Arc<MetricConfig>,
    /// The time of creation, in seconds since the epoch.
    pub(crate) created_on: u32,
}

/// A metric that is now in the metadata store.
#[derive(Debug)]
pub(crate) struct Created {
    /// The number of its head.
    pub(crate) at: u32,
    /// Its settings in the metadata store, if they are not those of the head: another program had created the metric
    /// before this daemon knew it.
    pub(crate) stored: Option<Arc<MetricConfig>>,
}

/// Decides whether a shard may create a metric, and creates it.
pub(crate) trait CreateGate {
    /// Whether the queue of creations is full. If so, the shard stops before the next batch.
    fn is_full(&self) -> bool;
    /// Refuses a name that the store cannot hold.
    fn check(&self, _name: &str) -> Result<(), Reject> {
        Ok(())
    }
    /// The quota accounts that count a metric of this name.
    fn places(&self, _name: &str) -> Places {
        Places::new()
    }
    /// Refuses a metric while a limit is reached. `now` is in seconds since the epoch.
    fn admit(&mut self, now: i64) -> Result<(), Reject>;
    fn config_for(&self, name: &str) -> Arc<MetricConfig>;
    /// Returns a number that no metric has; `None` when none is left.
    fn next_number(&mut self) -> Option<u32>;
    /// Queues the creation of a metric.
    fn submit(&mut self, metric: NewMetric);
}
