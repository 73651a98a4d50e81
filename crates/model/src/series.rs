//! A series: the answer of a read.

use std::sync::Arc;

/// Values of one metric on a regular grid, as Graphite's API shows them.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The metric's name.
    pub name: Arc<str>,
    /// Time of the first value, seconds since the epoch.
    pub start: i64,
    /// Seconds between two values.
    pub step: u32,
    /// The values; NaN is unknown.
    pub values: Vec<f64>,
}

impl Series {
    /// The end, exclusive: one step after the last value.
    pub fn end(&self) -> i64 {
        self.start + i64::from(self.step) * self.values.len() as i64
    }
}
