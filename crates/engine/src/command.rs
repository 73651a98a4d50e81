//! Commands that other threads send to a shard's worker, and figures that the worker publishes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Instant;

use plumbago_model::MetricConfig;
use tokio::sync::{mpsc, oneshot};

use crate::ledger::Ledger;
use crate::router::NameHash;
use crate::shard::Shard;
use crate::shard::copy::{BeginMove, Moved};
use crate::shard::creation::Created;
use crate::shard::crowded::CrowdedMetrics;
use crate::shard::import::{Begin, Begun, End};
use crate::shard::jobs::Done;
use crate::shard::live::Adopted;
use crate::shard::quota::Decision;
use crate::shard::ranges::BeginRange;
use crate::shard::read::{HeadAnswer, HeadQuery};
use plumbago_store::FetchError;

/// A command for the worker of a shard.
#[derive(Debug)]
pub(crate) enum ShardCommand {
    /// The metrics with these heads are now in the metadata store and the index.
    Created(Vec<Created>),
    /// A flusher has committed a job.
    Done(Done),
    /// Read heads. The read waits for late points for a limited time, which starts at the given moment.
    Read(HeadQuery, Instant, oneshot::Sender<Vec<Option<HeadAnswer>>>),
    /// Add metrics that another program created in the metadata store.
    Adopt(Vec<Adopted>),
    /// Answer which of these metrics have a head.
    Contains(Vec<NameHash>, oneshot::Sender<Vec<bool>>),
    /// Answer with the settings in the heads of these metrics; `None` for a metric without a head.
    Settings(Vec<NameHash>, oneshot::Sender<Vec<Option<Arc<MetricConfig>>>>),
    /// Answer which of these metrics got a point since this time (seconds since the epoch).
    AreWritten(Vec<NameHash>, i64, oneshot::Sender<Vec<bool>>),
    /// Answer whether these metrics may have points in this time range; both ends belong to it.
    MayHavePoints(Vec<NameHash>, (i64, i64), oneshot::Sender<Vec<Option<bool>>>),
    /// Forget the metrics that got no point since this time and hold none. Answer which were forgotten.
    Forget(Vec<NameHash>, i64, oneshot::Sender<Vec<bool>>),
    /// Begin the deletion of these metrics. Answer which deletions have begun.
    BeginDeletions(Vec<NameHash>, oneshot::Sender<Vec<bool>>),
    /// End the deletion of these metrics.
    EndDeletions(Vec<NameHash>, oneshot::Sender<Vec<bool>>),
    /// Begin a change of quotas: metrics get accounts of this generation too.
    BeginQuotas(u64, oneshot::Sender<()>),
    /// Give metrics their accounts under the new quotas.
    DecideQuotas(Vec<Decision>),
    /// Answer how many metrics have no account under the new quotas yet.
    UndecidedQuotas(oneshot::Sender<u64>),
    /// End the change of quotas: only the new quotas count from now on.
    EndQuotas(oneshot::Sender<()>),
    /// Answer up to which time (seconds since the epoch) all windows of these metrics are closed.
    ClosedUntil(Vec<NameHash>, oneshot::Sender<Vec<i64>>),
    /// Answer with the content of the heads of these metrics, whose history is about to be stored.
    BeginImport(Vec<Begin>, oneshot::Sender<Vec<Begun>>),
    /// Answer with the content of the heads of these metrics, from which a range is about to be deleted.
    BeginRange(Vec<BeginRange>, oneshot::Sender<Vec<Begun>>),
    /// Begin the deletion of these metrics if all of their points were copied. The metrics are blocked.
    BeginMoves(Vec<BeginMove>, oneshot::Sender<Vec<Moved>>),
    /// Apply the changes from storing histories or deleting ranges.
    EndImport(Vec<End>, oneshot::Sender<()>),
    /// Answer once the points that were queued before are in the journal's file.
    Journaled(oneshot::Sender<()>),
    /// Answer which metrics get several points for each slot of their raw stage.
    Crowded(oneshot::Sender<CrowdedMetrics>),
    /// Answer with the shard's ledger.
    Ledger(oneshot::Sender<Ledger>),
    /// Flush every held point. Answer once all are committed.
    FlushAll(oneshot::Sender<()>),
    /// Apply the queued points, make them durable and end the worker.
    Stop(StopOrder),
}

/// How a worker stops.
#[derive(Debug)]
pub(crate) struct StopOrder {
    /// Whether to hand the shard over for a checkpoint. This requires that the journal has all of the shard's
    /// points; otherwise the points are stored.
    pub(crate) for_checkpoint: bool,
    pub(crate) done: oneshot::Sender<Stopped>,
}

/// The result of a worker that has ended.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) ledger: Ledger,
    /// The shard, if it can be used for a checkpoint. Its points that are not stored are in the journal.
    pub(crate) shard: Option<Box<Shard>>,
}

/// Sends a request to a worker and waits for the answer.
///
/// # Errors
///
/// [`FetchError::Stopping`] if the worker has ended.
pub(crate) async fn ask<T>(
    worker: &mpsc::Sender<ShardCommand>,
    question: impl FnOnce(oneshot::Sender<T>) -> ShardCommand,
) -> Result<T, FetchError> {
    let (sender, receiver) = oneshot::channel();
    worker.send(question(sender)).await.map_err(|_| FetchError::Stopping)?;
    receiver.await.map_err(|_| FetchError::Stopping)
}

/// Figures of a shard for other threads. Its worker updates them after every batch.
#[derive(Debug, Default)]
pub(crate) struct ShardGauges {
    /// The number of points applied since the start.
    pub(crate) applied: AtomicU64,
    /// The number of points held.
    pub(crate) held: AtomicU64,
    /// The number of late points that wait in the journal.
    pub(crate) late_waiting: AtomicU64,
    /// The number of metrics that a flush of everything still has to write.
    pub(crate) flush_all_left: AtomicU64,
    pub(crate) metrics: AtomicU64,
    /// Memory of heads, cells and tables, in bytes.
    pub(crate) bytes: AtomicU64,
    /// The oldest journal segment that the shard needs.
    pub(crate) needed_from: AtomicU32,
    /// Whether the shard accepts no points at the moment.
    pub(crate) paused: AtomicBool,
}
