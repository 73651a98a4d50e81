//! Values like those of real metrics: 20 % constant, 30 % integer gauges that drift, 20 % integer counters,
//! 20 % gauges with two decimals, 10 % noise of full precision.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Generates the values of one metric, slot after slot.
pub(crate) struct Series {
    kind: u32,
    level: i64,
    random: SmallRng,
}

impl Series {
    /// The series of metric `number`.
    pub(crate) fn new(number: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let kind = (number % 10) as u32;
        let level = match kind {
            5 | 6 => random.random_range(0..1_000_000_000),
            7 | 8 => random.random_range(0..10_000),
            _ => random.random_range(0..1000),
        };
        Self { kind, level, random }
    }

    /// The next slot's value.
    pub(crate) fn next(&mut self) -> f64 {
        match self.kind {
            0 | 1 => self.level as f64,
            2..=4 => {
                self.level = (self.level + self.random.random_range(-10..=10)).max(0);
                self.level as f64
            }
            5 | 6 => {
                self.level += self.random.random_range(0..500);
                self.level as f64
            }
            7 | 8 => {
                self.level = self.random.random_range(0..10_000);
                self.level as f64 / 100.0
            }
            _ => self.random.random::<f64>() * 1000.0,
        }
    }
}
