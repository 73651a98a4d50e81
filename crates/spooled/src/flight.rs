//! One call on its way, until it has arrived or is to be put aside.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plumbago_store::{StoreError, WriteBatch};

use crate::gather::{self, Call};
use crate::remote::WriteRefusal;
use crate::sender::Sender;

impl Sender {
    /// Repeats a call until it has arrived; gives back what is to be put aside of it.
    pub(crate) async fn send(&self, mut call: Call, timestamp_us: i64) -> Result<(), (StoreError, Call)> {
        let started = Instant::now();
        let successes = self.store.health.successes.load(Ordering::Relaxed);
        let mut pause = self.config.retry_first;
        loop {
            let Err(refusal) = self.try_once(&call.batch, timestamp_us).await else { return Ok(()) };
            let is_lasting = !refusal.error.is_transient();
            let waited = started.elapsed() >= self.config.patience;
            let had_patience = is_lasting || waited;
            let runs = call.batch.runs.len();
            if !refusal.runs.is_empty() {
                call.keep(&refusal.runs);
            } else if had_patience {
                self.send_one_half(&mut call, timestamp_us).await;
            }
            if call.batch.runs.len() < runs {
                continue;
            }
            let others_succeed = self.store.health.successes.load(Ordering::Relaxed) > successes;
            // An answer that nothing changes, for so long: all calls on their way may be for one missing
            // table, and those behind them are not.
            if others_succeed && had_patience || is_lasting && waited {
                return Err((refusal.error, call));
            }
            tokio::time::sleep(with_jitter(pause)).await;
            pause = (pause * 2).min(self.config.retry_max);
        }
    }

    /// A store has refused a call as a whole and does not say what is wrong with it: finds out whether
    /// one of its halves can be written.
    async fn send_one_half(&self, call: &mut Call, timestamp_us: i64) {
        let runs = call.batch.runs.len();
        let halves = [(0..runs / 2), (runs / 2..runs)].map(Vec::from_iter);
        if runs < 2 {
            return;
        }
        for (half, other) in [(0, 1), (1, 0)] {
            let part = gather::part(&call.batch, &halves[half]);
            if self.try_once(&part, timestamp_us).await.is_ok() {
                call.keep(&halves[other]);
                return;
            }
        }
    }

    /// One try. What a store says it has not refused has arrived.
    pub(crate) async fn try_once(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        let (store, known) = (&self.store, batch.known());
        let Err(mut refusal) = store.remote.write_at(batch, timestamp_us).await else {
            store.stats.sent_calls.add(1);
            store.stats.sent_rows.add(known);
            store.health.succeeded();
            return Ok(());
        };
        refusal.runs.retain(|at| *at < batch.runs.len());
        if !refusal.runs.is_empty() && refusal.runs.len() < batch.runs.len() {
            store.stats.sent_rows.add(known - gather::part(batch, &refusal.runs).known());
            store.health.succeeded();
        }
        store.stats.retries.add(1);
        store.health.failed(&refusal.error);
        Err(refusal)
    }
}

/// Between half and one and a half of a pause, so that many do not wake at once.
fn with_jitter(pause: Duration) -> Duration {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    pause.mul_f64(0.5 + f64::from(nanos % 1000) / 1000.0)
}
