//! One call in flight: retried until it is acknowledged or deferred.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plumbago_store::{StoreError, WriteBatch, WriteRefusal};

use crate::calls::{self, Call};
use crate::sender::Sender;

/// How long after a successful call the store counts as reachable. If the few calls in flight are all for a
/// range without replicas, no call succeeds meanwhile, although the store is reachable.
const RECENT: Duration = Duration::from_secs(5);

impl Sender {
    /// Retries a call until the remote store has acknowledged it.
    ///
    /// # Errors
    /// The last error, with the part of the call that has to be deferred.
    pub(crate) async fn send(&self, mut call: Call, timestamp_us: i64) -> Result<(), (StoreError, Call)> {
        let started = Instant::now();
        let successes = self.store.health.successes.load(Ordering::Relaxed);
        let mut pause = self.config.retry_first;
        loop {
            let Err(refusal) = self.try_once(&call.batch, timestamp_us).await else { return Ok(()) };
            self.store.health.failed(&refusal.error);
            let is_lasting = !refusal.error.is_transient();
            let waited = started.elapsed() >= self.config.defer_after;
            let timed_out = is_lasting || waited || refusal.is_known_down;
            let runs = call.batch.runs.len();
            if !refusal.runs.is_empty() {
                call.keep(&refusal.runs);
            } else if timed_out {
                self.send_one_half(&mut call, timestamp_us).await;
            }
            if call.batch.runs.len() < runs {
                continue;
            }
            let health = &self.store.health;
            let others_succeed = health.successes.load(Ordering::Relaxed) > successes
                || refusal.is_known_down && health.succeeded_within(RECENT);
            // Defer the call if others succeed. If its error is permanent, defer it after a while in any
            // case, because all calls in flight may be for one missing table or one range without replicas,
            // while later calls are for others.
            if others_succeed && timed_out {
                health.clear_error();
                return Err((refusal.error, call));
            }
            if (is_lasting || refusal.is_known_down) && waited {
                return Err((refusal.error, call));
            }
            tokio::time::sleep(with_jitter(pause)).await;
            pause = (pause * 2).min(self.config.retry_max);
        }
    }

    /// Divides a call that the store refused without saying which runs it means, and tries both halves. Keeps the half
    /// that was not acknowledged.
    async fn send_one_half(&self, call: &mut Call, timestamp_us: i64) {
        let runs = call.batch.runs.len();
        let halves = [(0..runs / 2), (runs / 2..runs)].map(Vec::from_iter);
        if runs < 2 {
            return;
        }
        for (half, other) in [(0, 1), (1, 0)] {
            let part = calls::part(&call.batch, &halves[half]);
            if self.try_once(&part, timestamp_us).await.is_ok() {
                call.keep(&halves[other]);
                return;
            }
        }
    }

    /// Tries a call once. Runs that a refusal does not list were acknowledged, unless it lists none.
    pub(crate) async fn try_once(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        let (store, known) = (&self.store, batch.known());
        let started = Instant::now();
        let written = store.remote.write_at(batch, timestamp_us).await;
        store.stats.call_seconds.record(started.elapsed());
        let Err(mut refusal) = written else {
            store.stats.age_seconds.record(age(timestamp_us));
            store.stats.sent_calls.add(1);
            store.stats.sent_rows.add(known);
            store.health.succeeded();
            return Ok(());
        };
        refusal.runs.retain(|at| *at < batch.runs.len());
        if !refusal.runs.is_empty() && refusal.runs.len() < batch.runs.len() {
            store.stats.sent_rows.add(known - calls::part(batch, &refusal.runs).known());
            store.health.succeeded();
        }
        store.stats.retries.add(1);
        Err(refusal)
    }
}

/// The time since rows were spooled, which is when they got their timestamp.
fn age(timestamp_us: i64) -> Duration {
    let spooled = Duration::from_micros(timestamp_us.max(0).cast_unsigned());
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(Duration::ZERO, |now| now.saturating_sub(spooled))
}

/// Between half a pause and one and a half, so that callers do not all retry at once.
fn with_jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.5))
}
