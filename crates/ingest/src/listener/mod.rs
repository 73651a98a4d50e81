//! The sockets: they read, let a protocol parse, and push batches.

mod connection;
mod lease;
mod peers;
pub(crate) mod tcp;
pub(crate) mod udp;

use std::sync::Arc;

use plumbago_model::Clock;
use tokio::sync::Semaphore;

use crate::name::NameOptions;
use crate::protocol::Context;
use crate::relabel::{Relabel, Rules};
use crate::sink::PointSink;
use crate::stats::Stats;

/// How many batches may wait for the sink at once, all connections together. A connection that finds
/// no room among them does not read.
const BATCHES_IN_FLIGHT_MAX: usize = 64;

/// What a worker thread reads at once.
const READ_BYTES: usize = 256 << 10;

/// What every listener has in common.
pub(crate) struct Shared {
    pub(crate) sink: Arc<dyn PointSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rules: Rules,
    pub(crate) names: NameOptions,
    pub(crate) stats: Arc<Stats>,
    /// A permit for each batch on its way to the sink.
    in_flight: Semaphore,
    /// A permit for each KiB that unfinished large frames hold.
    frame_memory: Semaphore,
}

impl Shared {
    pub(crate) fn new(
        sink: Arc<dyn PointSink>,
        clock: Arc<dyn Clock>,
        rules: Rules,
        names: NameOptions,
        stats: Arc<Stats>,
        frame_memory_bytes: u64,
    ) -> Self {
        let kib = usize::try_from(frame_memory_bytes / 1024).unwrap_or(usize::MAX);
        Self {
            sink,
            clock,
            rules,
            names,
            stats,
            in_flight: Semaphore::new(BATCHES_IN_FLIGHT_MAX),
            frame_memory: Semaphore::new(kib.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// What a parser is to know at this moment.
    fn context<'a>(&self, relabel: &'a Relabel) -> Context<'a> {
        let now = self.clock.now().clamp(0, i64::from(u32::MAX)) as u32;
        Context { now, names: self.names, relabel: (!relabel.is_empty()).then_some(relabel) }
    }
}
