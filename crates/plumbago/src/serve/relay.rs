//! Opens and starts the relay.

use std::sync::Arc;

use plumbago_relay::{OpenError, Relay, RelayParts};

use super::Core;
use crate::config::Config;
use crate::error::{Exit, Failure};

/// The queues drop points once the free space is less than this many times the minimum of the journal, so that the
/// journal need not refuse points.
const FLOOR_OF_JOURNAL: u64 = 2;

/// Opens the queues, which accept points from now on.
pub(super) fn open(config: &Config, core: &Core) -> Result<Relay, Failure> {
    let parts = RelayParts {
        dir: &config.relay_dir(),
        min_free_bytes: config.journal.min_free_bytes.saturating_mul(FLOOR_OF_JOURNAL),
        clock: Arc::clone(&core.clock),
        registry: &core.registry,
    };
    Relay::open(&config.relay, parts).map_err(failure)
}

/// Starts the senders.
pub(super) fn start(config: &Config, relay: &Relay) -> Result<(), Failure> {
    relay.start(&config.relay).map_err(failure)
}

fn failure(error: OpenError) -> Failure {
    let exit = match &error {
        OpenError::Settings(_) | OpenError::Tls(_) => Exit::Config,
        OpenError::Queue { .. } => Exit::Store,
    };
    Failure::new(exit, error)
}
