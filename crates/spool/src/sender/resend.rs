//! Sends retained rows again that a server may have lost. This happens while new rows are sent, which have
//! priority.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plumbago_store::{ErrorKind, RemotePoints, StoreError, WriteBatch};
use plumbago_telemetry::Throttle;
use uuid::Uuid;

use crate::calls;
use crate::queue::{Position, ResendChunk};
use crate::sender::Sender;
use crate::sender::deferred::by_time_and_table;
use crate::store::{SpooledStore, blocking, failed};

/// Approximate bytes of slices read in one step.
const STEP_BYTES: usize = 256 << 10;
/// While new rows are in flight, the pause after a call is this many times as long as the call took.
const PAUSE_FACTOR: u32 = 3;
/// The longest of these pauses.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A step that fails this many times is left for later.
const TRIES_MAX: u32 = 3;
/// Rows that the store refuses for good are left after this many times `defer_after`. Until then a table or a right that
/// is missing may come back.
const REFUSED_FOR: u32 = 10;
/// How often the task checks for rows to send again, besides being notified.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A call with its timestamp, in microseconds since the epoch.
type TimedCall = (i64, WriteBatch);

/// What a replay would send again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Again {
    /// Size of these rows in the spool, in bytes.
    pub bytes: u64,
    /// Number of rows in the spool.
    pub rows: u64,
    /// The number of rows by the server that stores them; a row counts for each of its replicas. Empty if the
    /// store does not know the servers.
    pub servers: BTreeMap<Uuid, u64>,
}

impl SpooledStore {
    /// Counts what [`SpooledStore::replay`] would send again, and changes nothing.
    ///
    /// # Errors
    /// If the spool cannot be read, or if the store must be reached to find the servers and cannot.
    pub async fn would_replay(&self, since_us: i64) -> Result<Again, StoreError> {
        let (mut again, mut at) = (Again::default(), Position::default());
        loop {
            let spool = self.spool.clone();
            let next = blocking("read the spool", move || {
                spool.look_again(since_us, at, STEP_BYTES).map_err(|error| failed("read the spool", error))
            })
            .await?;
            let Some(chunk) = next else { return Ok(again) };
            at = chunk.chunk.end;
            again.bytes += chunk.chunk.bytes();
            again.rows += chunk.chunk.slices.iter().map(|slice| u64::from(slice.rows)).sum::<u64>();
            for (_, batch) in calls_again(&*self.remote, &chunk).0 {
                for (server, rows) in self.remote.rows_by_server(&batch).await? {
                    *again.servers.entry(server).or_default() += rows;
                }
            }
        }
    }
}

/// The calls for some slices, each with its timestamp, and the number of damaged slices.
fn calls_again(remote: &dyn RemotePoints, chunk: &ResendChunk) -> (Vec<TimedCall>, u64) {
    let slices = &chunk.chunk.slices;
    if chunk.own_timestamps {
        let (calls, damaged): (BTreeMap<_, _>, u64) = by_time_and_table(slices);
        return (calls.into_iter().map(|((at_us, _), (batch, _))| (at_us, batch)).collect(), damaged);
    }
    let (calls, damaged) = calls::calls(slices, remote.write_limits().slots_per_call);
    (calls.into_iter().map(|call| (chunk.chunk.timestamp_us, call.batch)).collect(), damaged)
}

impl Sender {
    /// Sends the rows that are queued to be sent again, one call at a time; never returns.
    pub(super) async fn send_again(&self) {
        let (mut pause, mut refused_since) = (self.config.retry_first, None);
        loop {
            match self.next_step(&mut refused_since).await {
                Ok(None) => {
                    if self.store.spool.stats().resend_bytes == 0 {
                        refused_since = None;
                    }
                    let _ = tokio::time::timeout(LOOK_EVERY, self.store.returned.notified()).await;
                }
                Ok(Some(true)) => pause = self.config.retry_first,
                failed => {
                    if let Err(error) = failed {
                        self.store.health.failed(&error);
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(self.config.retry_max);
                }
            }
        }
    }

    /// Sends the next slices. Returns whether all of them are done with; `None` if there are none. `refused_since` is
    /// when rows were first refused for good in these laps.
    async fn next_step(&self, refused_since: &mut Option<Instant>) -> Result<Option<bool>, StoreError> {
        let spool = self.store.spool.clone();
        let next = blocking("read the spool", move || {
            spool.next_resend(STEP_BYTES).map_err(|error| failed("read the spool", error))
        })
        .await?;
        let Some(chunk) = next else { return Ok(None) };
        let (mut calls, damaged) = calls_again(&*self.store.remote, &chunk);
        self.store.stats.damaged.add(damaged);
        let mut refused = Vec::new();
        for _ in 0..TRIES_MAX {
            calls = self.try_again(calls, &chunk, &mut refused).await;
            if calls.is_empty() {
                break;
            }
        }
        if !refused.is_empty() {
            let since = refused_since.get_or_insert_with(Instant::now);
            if since.elapsed() < self.config.defer_after.saturating_mul(REFUSED_FOR) {
                calls.append(&mut refused);
            }
        }
        for call in refused {
            calls.extend(self.leave_refused(call, &chunk).await);
        }
        let (spool, is_complete) = (self.store.spool.clone(), calls.is_empty());
        blocking("record what was sent again", move || {
            spool.resent(&chunk, is_complete).map_err(|error| failed("record what was sent again", error))
        })
        .await?;
        Ok(Some(is_complete))
    }

    /// Tries each call once, with pauses for new rows. Returns the runs that were not acknowledged, without those that
    /// the store refuses for good, which go to `refused`.
    async fn try_again(
        &self,
        calls: Vec<TimedCall>,
        chunk: &ResendChunk,
        refused: &mut Vec<TimedCall>,
    ) -> Vec<TimedCall> {
        let mut rest = Vec::new();
        for (timestamp_us, batch) in calls {
            let started = Instant::now();
            let written = self.store.remote.write_for(&batch, timestamp_us, &chunk.servers).await;
            match written {
                Ok(rows) => self.store.stats.resent_rows.add(rows),
                Err(refusal) => {
                    self.store.stats.retries.add(1);
                    let part =
                        if refusal.runs.is_empty() { batch } else { calls::part(&batch, &refusal.runs) };
                    let is_final = refusal.error.kind == ErrorKind::Invalid;
                    if is_final { &mut *refused } else { &mut rest }.push((timestamp_us, part));
                }
            }
            if self.is_busy.load(Ordering::Relaxed) {
                tokio::time::sleep((started.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX)).await;
            }
        }
        rest
    }

    /// Leaves runs that the store refuses for good, for example because their table was dropped: they must not make the
    /// laps begin again for ever. Runs that are refused only together with another one are sent. Returns what has to be
    /// tried again, because the store does not answer.
    async fn leave_refused(
        &self,
        (timestamp_us, mut batch): TimedCall,
        chunk: &ResendChunk,
    ) -> Option<TimedCall> {
        static LEFT: Throttle = Throttle::new(60_000);
        'halves: while batch.runs.len() > 1 {
            let middle = batch.runs.len() / 2;
            let halves = [0..middle, middle..batch.runs.len()];
            let [first, second] = halves.map(|runs| calls::part(&batch, &Vec::from_iter(runs)));
            for (half, other) in [(&first, &second), (&second, &first)] {
                match self.store.remote.write_for(half, timestamp_us, &chunk.servers).await {
                    Ok(rows) => {
                        self.store.stats.resent_rows.add(rows);
                        batch = other.clone();
                        continue 'halves;
                    }
                    Err(refusal) if refusal.error.kind == ErrorKind::Invalid => {}
                    Err(_) => return Some((timestamp_us, batch)),
                }
            }
            break;
        }
        self.store.stats.left_rows.add(batch.known());
        if let Some(suppressed) = LEFT.pass_now() {
            tracing::warn!(
                rows = batch.known(),
                suppressed,
                "rows that a server may have lost are not sent again, because the servers refuse them; look whether their \
                 table exists"
            );
        }
        None
    }
}
