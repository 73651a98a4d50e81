//! The sockets: read bytes, parse them with a protocol, and push batches to the sink.

mod body;
mod connection;
mod first_byte;
mod http;
pub(crate) mod lease;
pub(crate) mod peers;
pub(crate) mod tcp;
pub(crate) mod udp;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use plumbago_model::{Clock, PointBatch};
use tokio::sync::Semaphore;

use crate::http_server::Slot;
use crate::name::NameOptions;
use crate::protocol::Context;
use crate::relabel::{Relabel, Rules};
use crate::sink::PointSink;
use crate::stats::{ListenerStats, Stats};

/// Number of batches of all connections that may wait for the sink at the same time: one for each MiB of
/// `ingest.frame_memory_bytes`, within these bounds. When no more may wait, connections are not read.
const BATCHES_IN_FLIGHT: RangeInclusive<usize> = 4..=64;

/// Largest read, and size of the buffer of each worker thread.
const READ_BYTES: usize = 256 << 10;

/// State shared by all listeners.
pub(crate) struct Shared {
    pub(crate) sink: Arc<dyn PointSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rules: Rules,
    pub(crate) names: NameOptions,
    pub(crate) stats: Arc<Stats>,
    /// Serves HTTP connections on ports for lines.
    pub(crate) http: Slot,
    /// One permit per batch that may wait for the sink.
    pub(crate) in_flight: Semaphore,
    /// One permit per KiB that incomplete large frames may take.
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
            http: Slot::default(),
            in_flight: Semaphore::new(
                (kib / 1024).clamp(*BATCHES_IN_FLIGHT.start(), *BATCHES_IN_FLIGHT.end()),
            ),
            frame_memory: Semaphore::new(kib.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Pushes a batch and counts it. Returns false if the sink did not accept it.
    pub(crate) async fn push(&self, points: PointBatch, stats: &ListenerStats) -> bool {
        if points.is_empty() {
            return true;
        }
        let count = points.len();
        let started = Instant::now();
        let accepted = self.sink.push(points).await;
        if accepted {
            stats.pushed(count);
            stats.pushed_in(started.elapsed());
        } else {
            stats.dropped(count, self.clock.now_ms());
        }
        accepted
    }

    /// The context of a parser, at the current time.
    pub(crate) fn context<'a>(&self, relabel: &'a Relabel) -> Context<'a> {
        let now = self.clock.now().clamp(0, i64::from(u32::MAX)) as u32;
        Context { now, names: self.names, relabel: (!relabel.is_empty()).then_some(relabel) }
    }
}
