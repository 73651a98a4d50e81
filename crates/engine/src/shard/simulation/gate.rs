//! Creation of metrics in the simulation.

use super::*;

/// A gate that accepts every metric.
pub(super) struct OpenGate<'a> {
    pub(super) config: Arc<MetricConfig>,
    pub(super) numbers: &'a mut FreeNumbers,
    pub(super) made: Vec<NewMetric>,
}

impl CreateGate for OpenGate<'_> {
    fn is_full(&self) -> bool {
        false
    }
    fn admit(&mut self, _: i64) -> Result<(), Reject> {
        Ok(())
    }
    fn config_for(&self, _: &str) -> Arc<MetricConfig> {
        Arc::clone(&self.config)
    }
    fn next_number(&mut self) -> Option<u32> {
        self.numbers.take_lowest()
    }
    fn submit(&mut self, metric: NewMetric) {
        self.made.push(metric);
    }
}
