//! The clock of the daemon: the machine's clock, or a clock that tests set.

use std::sync::Arc;

use plumbago_model::{Clock, ManualClock, SystemClock};

/// The clock in use.
#[derive(Debug, Clone)]
pub(crate) enum Setting {
    /// The machine's clock.
    System,
    /// A clock that stands still until the admin port sets it (`debug.clock`).
    Manual(Arc<ManualClock>),
}

impl Setting {
    /// Chooses the clock for `debug.clock` (seconds since the epoch; 0 for the machine's clock).
    pub(crate) fn from(seconds: i64) -> Self {
        if seconds == 0 { Self::System } else { Self::Manual(Arc::new(ManualClock::at(seconds))) }
    }

    pub(crate) fn shared(&self) -> Arc<dyn Clock> {
        match self {
            Self::System => Arc::new(SystemClock),
            Self::Manual(clock) => Arc::<ManualClock>::clone(clock),
        }
    }

    /// Sets a manual clock to `seconds` since the epoch. Returns `false` if the daemon uses the machine's
    /// clock.
    pub(crate) fn set(&self, seconds: i64) -> bool {
        if let Self::Manual(clock) = self {
            clock.set(seconds);
        }
        matches!(self, Self::Manual(_))
    }
}
