//! Which clock the daemon runs on: the machine's, or for tests one that is set by hand.

use std::sync::Arc;

use plumbago_model::{Clock, ManualClock, SystemClock};

/// The clock, and the hand that sets it when there is one.
#[derive(Debug, Clone)]
pub(crate) enum Setting {
    /// The machine's.
    System,
    /// `debug.clock`.
    Manual(Arc<ManualClock>),
}

impl Setting {
    /// 0 is the machine's clock.
    pub(crate) fn from(seconds: i64) -> Self {
        if seconds == 0 { Self::System } else { Self::Manual(Arc::new(ManualClock::at(seconds))) }
    }

    pub(crate) fn shared(&self) -> Arc<dyn Clock> {
        match self {
            Self::System => Arc::new(SystemClock),
            Self::Manual(clock) => Arc::<ManualClock>::clone(clock),
        }
    }

    /// False when the daemon runs on the machine's clock.
    pub(crate) fn set(&self, seconds: i64) -> bool {
        if let Self::Manual(clock) = self {
            clock.set(seconds);
        }
        matches!(self, Self::Manual(_))
    }
}
