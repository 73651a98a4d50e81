//! Damaged rows are counted, logged at a bounded rate, and skipped.

use std::fmt::Display;
use std::sync::Arc;

use fjall::Keyspace;
use plumbago_model::Clock;
use plumbago_telemetry::{Counter, Throttle};

/// Counts and logs damage.
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

    /// Counts and logs one damaged row, or one damaged block of rows that cannot be told apart.
    pub(crate) fn report(&self, keyspace: &Keyspace, what: &dyn Display, why: &dyn Display) {
        self.counter.add(1);
        if let Some(held_back) = self.throttle.pass(self.clock.now_ms()) {
            tracing::error!(
                path = %keyspace.path().display(), keyspace = %&**keyspace.name(), what = %what, why = %why, held_back,
                "skipped stored data that is damaged"
            );
        }
    }
}

/// Visits rows in key order from `from` on. Damaged blocks are counted, logged and skipped. Stops when
/// `visit` returns `false`.
pub(crate) fn scan_around_damage(
    keyspace: &Keyspace,
    from: &[u8],
    damage: &Damage,
    mut visit: impl FnMut(&[u8], &[u8]) -> bool,
) {
    let mut damaged = |last: &[u8], error: &fjall::Error| {
        damage.report(keyspace, &format_args!("rows after {}", last.escape_ascii()), error);
    };
    plumbago_fjall_host::scan(keyspace, from, None, &mut damaged, &mut |key, value| visit(key, &value));
}
