//! Counts foreign and damaged rows, which reads skip, and logs some of them.

use std::fmt::Display;
use std::sync::Arc;

use plumbago_model::Clock;
use plumbago_telemetry::{Counter, Throttle};

/// Counts and logs damaged rows. Clones share the limit on log lines.
#[derive(Debug, Clone)]
pub(crate) struct DamageReporter {
    counter: Counter,
    throttle: Arc<Throttle>,
    clock: Arc<dyn Clock>,
}

impl DamageReporter {
    pub(crate) fn new(counter: Counter, clock: Arc<dyn Clock>) -> Self {
        Self { counter, throttle: Arc::new(Throttle::new(10_000)), clock }
    }

    /// Counts a row, and logs it unless another one was logged recently.
    pub(crate) fn report(&self, table: &str, row: &dyn Display, why: &dyn Display) {
        self.counter.add(1);
        if let Some(suppressed) = self.throttle.pass(self.clock.now_ms()) {
            tracing::warn!(table, %row, %why, suppressed, "skipped a row that is damaged or was written by another program");
        }
    }
}
