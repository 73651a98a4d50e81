//! Foreign and damaged rows: counted, named at a bounded rate, skipped.

use std::fmt::Display;
use std::sync::Arc;

use plumbago_model::Clock;
use plumbago_telemetry::{Counter, Throttle};

/// Says what is damaged.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    counter: Counter,
    throttle: Arc<Throttle>,
    clock: Arc<dyn Clock>,
}

impl Damage {
    pub(crate) fn new(counter: Counter, clock: Arc<dyn Clock>) -> Self {
        Self { counter, throttle: Arc::new(Throttle::new(10_000)), clock }
    }

    /// Counts one row and names it.
    pub(crate) fn report(&self, table: &str, row: &dyn Display, why: &dyn Display) {
        self.counter.add(1);
        if let Some(held_back) = self.throttle.pass(self.clock.now_ms()) {
            tracing::warn!(table, %row, %why, held_back, "a row is damaged or foreign and skipped");
        }
    }
}
