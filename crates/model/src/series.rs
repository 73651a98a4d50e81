//! Series, the results of reads.

use std::sync::Arc;

/// Values of one metric at equal distances in time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name of the metric.
    pub name: Arc<str>,
    /// Time of the first value, in seconds since the epoch.
    pub start: i64,
    /// Seconds between two values.
    pub step: u32,
    /// One value per step; NaN is unknown.
    pub values: Vec<f64>,
}

impl Series {
    /// End of the series (exclusive), in seconds since the epoch: one step after the last value.
    pub fn end(&self) -> i64 {
        self.start + i64::from(self.step) * self.values.len() as i64
    }
}
