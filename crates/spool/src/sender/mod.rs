//! The task that sends slices to the remote store until they are acknowledged.
//!
//! It reads chunks ahead, cuts them into calls, keeps as many calls in flight as the remote store allows, and
//! acknowledges chunks in order. A failed call is retried with growing pauses, without end if no other call
//! succeeds either. If others succeed it is deferred after a while, so that a missing table or a token range
//! without replicas does not block them.

mod config;
mod deferred;
mod flight;
mod resend;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::queue::{Chunk, Id, Position, Slice};
use futures::stream::{FuturesUnordered, StreamExt};
use plumbago_store::StoreError;
use tokio_util::sync::CancellationToken;

use crate::calls::{self, Call};
use crate::store::{SpooledStore, blocking, failed};

pub use config::SenderConfig;
pub use resend::Again;

/// Approximate bytes of slices in a chunk. Decoded they take about ten times as much.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks in flight at once.
const CHUNKS_MAX: usize = 4;
/// How often a sender that has caught up checks for a segment that is due.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The pause after an error of the spool itself.
const SPOOL_PAUSE: Duration = Duration::from_secs(1);

/// Sends the rows that a [`SpooledStore`] has committed.
#[derive(Debug)]
pub struct Sender {
    pub(crate) store: SpooledStore,
    pub(crate) config: SenderConfig,
    /// Whether new rows are waiting or in flight.
    is_busy: AtomicBool,
}

/// A chunk in flight.
struct Pending {
    chunk: Chunk,
    number: u64,
    calls_left: usize,
    /// The part of the chunk that has to be deferred: rows and bytes by metric.
    deferred: HashMap<Id, (u32, Vec<u8>)>,
}

/// Chunks read from the spool, and calls that are not in flight yet.
#[derive(Default)]
struct Queue {
    pending: VecDeque<Pending>,
    waiting: VecDeque<(u64, i64, Call)>,
    position: Option<Position>,
    next_number: u64,
}

impl Sender {
    /// A sender. There must be only one per spool.
    pub fn new(store: SpooledStore, config: SenderConfig) -> Self {
        Self { store, config, is_busy: AtomicBool::new(false) }
    }

    /// Sends until `stop` is cancelled. Calls in flight at that moment are repeated by the next process.
    pub async fn run(self, stop: CancellationToken) {
        let this = Arc::new(self);
        let all = async { tokio::join!(this.drain(), this.retry_deferred(), this.send_again()) };
        stop.run_until_cancelled(all).await;
    }

    async fn drain(&self) {
        let mut queue = Queue::default();
        let mut flights = FuturesUnordered::new();
        loop {
            let concurrency = self.store.remote.write_limits().concurrency.max(1);
            let mut caught_up = false;
            while queue.waiting.len() < concurrency && queue.pending.len() < CHUNKS_MAX && !caught_up {
                match self.refill(&mut queue).await {
                    Ok(found) => caught_up = !found,
                    Err(error) => {
                        self.store.health.failed(&error);
                        tokio::time::sleep(SPOOL_PAUSE).await;
                        caught_up = true;
                    }
                }
                // A chunk of damaged slices has no calls to wait for.
                self.acknowledge_finished(&mut queue).await;
            }
            while flights.len() < concurrency
                && let Some((number, timestamp_us, call)) = queue.waiting.pop_front()
            {
                flights.push(async move { (number, self.send(call, timestamp_us).await) });
            }
            let was_busy = self.is_busy.swap(!flights.is_empty(), Ordering::Relaxed);
            if !was_busy {
                // None of the new calls was polled yet.
                self.store.health.begin();
            }
            tokio::select! {
                Some((number, result)) = flights.next() => {
                    if let Err((error, call)) = &result {
                        self.store.stats.deferred_calls.add(1);
                        self.store.health.log_deferred(error, call);
                    }
                    note(&mut queue, number, result);
                    self.acknowledge_finished(&mut queue).await;
                }
                () = self.look_again(), if caught_up => {}
                else => tokio::task::yield_now().await,
            }
        }
    }

    /// Waits until there may be something new in the spool.
    async fn look_again(&self) {
        // Commits do not wake the sender, because their rows should linger. Only a shutdown wakes it.
        let _ = tokio::time::timeout(LOOK_EVERY, self.store.urgent.notified()).await;
    }

    /// Reads the next chunk and cuts it into calls. Returns `false` when none is due.
    async fn refill(&self, queue: &mut Queue) -> Result<bool, StoreError> {
        let spool = self.store.spool.clone();
        let (position, slots) = (queue.position, self.store.remote.write_limits().slots_per_call);
        let found = blocking("read the spool", move || {
            let chunk = spool.next_chunk(position, CHUNK_BYTES).map_err(|e| failed("read the spool", e))?;
            Ok(chunk.map(|mut chunk| {
                let (calls, damaged) = calls::calls(&chunk.slices, slots);
                chunk.slices = Vec::new();
                (chunk, calls, damaged)
            }))
        })
        .await?;
        let Some((chunk, calls, damaged)) = found else { return Ok(false) };
        self.store.stats.damaged.add(damaged);
        let number = queue.next_number;
        queue.next_number += 1;
        queue.position = Some(chunk.end);
        let timestamp_us = chunk.timestamp_us;
        queue.pending.push_back(Pending { chunk, number, calls_left: calls.len(), deferred: HashMap::new() });
        queue.waiting.extend(calls.into_iter().map(|call| (number, timestamp_us, call)));
        Ok(true)
    }

    /// Acknowledges, in order, the chunks whose calls are all acknowledged or deferred.
    async fn acknowledge_finished(&self, queue: &mut Queue) {
        while let Some(first) = queue.pending.pop_front_if(|first| first.calls_left == 0) {
            let spool = self.store.spool.clone();
            let done = blocking("acknowledge", move || {
                let timestamp_us = first.chunk.timestamp_us;
                let deferred: Vec<(i64, Slice<'_>)> = first
                    .deferred
                    .iter()
                    .map(|(id, (rows, bytes))| (timestamp_us, Slice { id: *id, rows: *rows, bytes }))
                    .collect();
                if !deferred.is_empty() {
                    spool.defer(&deferred).map_err(|error| failed("defer rows", error))?;
                }
                spool.acknowledge(&first.chunk).map_err(|error| failed("acknowledge", error))
            })
            .await;
            // Later chunks must not be acknowledged before this one, so everything unacknowledged is read
            // and sent again. Writing rows twice changes nothing.
            if let Err(error) = done {
                self.store.health.failed(&error);
                *queue = Queue { next_number: queue.next_number, ..Queue::default() };
            }
        }
    }
}

/// Records the end of a call. Calls of a queue that was reset since are ignored.
fn note(queue: &mut Queue, number: u64, result: Result<(), (StoreError, Call)>) {
    let Some(pending) = queue.pending.iter_mut().find(|pending| pending.number == number) else { return };
    pending.calls_left -= 1;
    if let Err((_, call)) = result {
        for (id, rows, bytes) in calls::to_slices(&call.batch) {
            // A metric may have runs in several calls. They are deferred as one slice.
            match pending.deferred.entry(id) {
                Entry::Occupied(mut known) => {
                    let (all, known) = known.get_mut();
                    *all += rows;
                    known.extend_from_slice(bytes.get(1..).unwrap_or_default());
                }
                Entry::Vacant(place) => {
                    place.insert((rows, bytes));
                }
            }
        }
    }
}
