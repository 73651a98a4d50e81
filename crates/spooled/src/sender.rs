//! The task that carries slices to the remote store until it has acknowledged them.
//!
//! It reads chunks ahead, cuts them into calls, keeps as many calls on their way as the remote store
//! likes, and acknowledges chunks in order. A call that fails is repeated with growing pauses, for
//! ever if nothing else succeeds either; while others succeed it is put aside after a time, so that a
//! missing table or a dead range holds nothing up.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use plumbago_journal::spool::{Chunk, Id, Position, Slice, SpoolStats};
use plumbago_store::StoreError;
use plumbago_telemetry::Throttle;
use tokio_util::sync::CancellationToken;

use crate::config::SenderConfig;
use crate::gather::{self, Call};
use crate::store::{SpooledStore, blocking, failed};

/// Slices of a chunk, about; decoded they take some ten times that.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that are on their way at once.
const CHUNKS_MAX: usize = 4;
/// How often a sender that has caught up looks whether new slices had time to gather.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A pause after the spool itself failed.
const SPOOL_PAUSE: Duration = Duration::from_secs(1);

const ERROR_LINE_MS: i64 = 10_000;

/// How sending goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SenderStatus {
    /// What waits.
    pub spool: SpoolStats,
    /// Why the last call failed, until one succeeds.
    pub last_error: Option<String>,
    /// Seconds since a call last succeeded, when one did in this process.
    pub last_success: Option<Duration>,
}

/// What the sender tells the rest of the process.
#[derive(Debug)]
pub(crate) struct Health {
    last_error: Mutex<Option<String>>,
    last_success: Mutex<Option<Instant>>,
    /// Calls that succeeded; tells whether others succeed while one fails.
    pub(crate) successes: AtomicU64,
    throttle: Throttle,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            last_error: Mutex::default(),
            last_success: Mutex::default(),
            successes: AtomicU64::new(0),
            throttle: Throttle::new(ERROR_LINE_MS),
        }
    }
}

impl Health {
    pub(crate) fn succeeded(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        *self.last_success.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(crate) fn failed(&self, error: &StoreError) {
        let cause = std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"));
        let text = format!("{error}{cause}");
        if let Some(held_back) = self.throttle.pass_now() {
            tracing::warn!(
                error = text,
                held_back,
                "rows not sent, they stay in the spool and are tried again"
            );
        }
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    pub(crate) fn status(&self, spool: SpoolStats) -> SenderStatus {
        let last_success = *self.last_success.lock().unwrap_or_else(PoisonError::into_inner);
        SenderStatus {
            spool,
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            last_success: last_success.map(|at| at.elapsed()),
        }
    }
}

/// Sends what a [`SpooledStore`] has taken.
#[derive(Debug)]
pub struct Sender {
    pub(crate) store: SpooledStore,
    pub(crate) config: SenderConfig,
}

/// A chunk on its way.
struct Pending {
    chunk: Chunk,
    number: u64,
    calls_left: usize,
    /// What is to be put aside of it.
    parked: HashMap<Id, (u32, Vec<u8>)>,
}

/// Between the spool and the calls on their way.
#[derive(Default)]
struct Queue {
    pending: VecDeque<Pending>,
    waiting: VecDeque<(u64, i64, Call)>,
    position: Option<Position>,
    next_number: u64,
}

impl Sender {
    /// A sender; there must be one only for a spool.
    pub fn new(store: SpooledStore, config: SenderConfig) -> Self {
        Self { store, config }
    }

    /// Sends until it is told to stop. What is on its way then is sent again by the next process.
    pub async fn run(self, stop: CancellationToken) {
        let this = Arc::new(self);
        let both = async { tokio::join!(this.drain(), this.retry_parked()) };
        stop.run_until_cancelled(both).await;
    }

    async fn drain(&self) {
        let mut queue = Queue::default();
        let mut flights = FuturesUnordered::new();
        loop {
            let concurrency = self.store.remote.appetite().concurrency.max(1);
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
                // A chunk of which nothing could be read waits for nobody.
                self.settle(&mut queue).await;
            }
            while flights.len() < concurrency
                && let Some((number, timestamp_us, call)) = queue.waiting.pop_front()
            {
                flights.push(async move { (number, self.send(call, timestamp_us).await) });
            }
            tokio::select! {
                Some((number, result)) = flights.next() => {
                    self.store.stats.parked_calls.add(u64::from(result.is_err()));
                    note(&mut queue, number, result);
                    self.settle(&mut queue).await;
                }
                () = self.look_again(), if caught_up => {}
                else => tokio::task::yield_now().await,
            }
        }
    }

    /// Until there may be something new in the spool.
    async fn look_again(&self) {
        // News come with every commit, and they shall gather: so no hurry after them.
        let _ = tokio::time::timeout(LOOK_EVERY, self.store.urgent.notified()).await;
    }

    /// Takes the next chunk; false when there is none for now.
    async fn refill(&self, queue: &mut Queue) -> Result<bool, StoreError> {
        let spool = self.store.spool.clone();
        let (position, slots) = (queue.position, self.store.remote.appetite().slots_per_call);
        let found = blocking("read the spool", move || {
            let chunk = spool.next_chunk(position, CHUNK_BYTES).map_err(|e| failed("read the spool", e))?;
            Ok(chunk.map(|mut chunk| {
                let (calls, damaged) = gather::calls(&chunk.slices, slots);
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
        queue.pending.push_back(Pending { chunk, number, calls_left: calls.len(), parked: HashMap::new() });
        queue.waiting.extend(calls.into_iter().map(|call| (number, timestamp_us, call)));
        Ok(true)
    }

    /// Acknowledges chunks of which everything has arrived or was put aside, in order.
    async fn settle(&self, queue: &mut Queue) {
        while let Some(first) = queue.pending.pop_front_if(|first| first.calls_left == 0) {
            let spool = self.store.spool.clone();
            let done = blocking("acknowledge", move || {
                let timestamp_us = first.chunk.timestamp_us;
                let parked: Vec<(i64, Slice<'_>)> = first
                    .parked
                    .iter()
                    .map(|(id, (rows, bytes))| (timestamp_us, Slice { id: *id, rows: *rows, bytes }))
                    .collect();
                if !parked.is_empty() {
                    spool.park(&parked).map_err(|error| failed("put rows aside", error))?;
                }
                spool.acknowledge(&first.chunk).map_err(|error| failed("acknowledge", error))
            })
            .await;
            // What is not acknowledged is sent again, which changes nothing: the next chunks must not
            // be acknowledged before it, so all of it starts anew.
            if let Err(error) = done {
                self.store.health.failed(&error);
                *queue = Queue { next_number: queue.next_number, ..Queue::default() };
            }
        }
    }
}

/// Notes how a call ended. A call of a queue that was given up counts for nothing.
fn note(queue: &mut Queue, number: u64, result: Result<(), (StoreError, Call)>) {
    let Some(pending) = queue.pending.iter_mut().find(|pending| pending.number == number) else { return };
    pending.calls_left -= 1;
    if let Err((error, call)) = result {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            stage = %call.table.stage, rows = call.rows,
            "rows put aside, others can be sent"
        );
        for (id, rows, bytes) in gather::to_slices(&call.batch) {
            // A metric may have runs in several calls; they are put aside as one slice.
            match pending.parked.entry(id) {
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
