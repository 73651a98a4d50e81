//! What a shard needs to create metrics.

use std::sync::Arc;

use plumbago_model::MetricConfig;

use crate::quotas::Places;
use crate::stats::Reject;

/// Returns the configuration of a new metric for its name, by the storage rules.
pub type ConfigFor = Arc<dyn Fn(&str) -> Arc<MetricConfig> + Send + Sync>;

/// A metric to create.
#[derive(Debug)]
pub(crate) struct NewMetric {
    /// The number of its head.
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) config: Arc<MetricConfig>,
    /// Seconds since the epoch.
    pub(crate) created_on: u32,
}

/// Decides whether a shard may create a metric, and creates it.
pub(crate) trait CreateGate {
    /// True when the queue of creations is full. The shard then stops before the next batch.
    fn is_full(&self) -> bool;
    /// Refuses a name that the store cannot hold.
    fn check(&self, _name: &str) -> Result<(), Reject> {
        Ok(())
    }
    /// The accounts of quotas that a metric of this name counts for.
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
