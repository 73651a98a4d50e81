//! The traits through which the cluster uses the rest of this daemon. The binary implements them.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::MetricId;
use plumbago_store::{FetchError, MetricMeta, StoreError};
use uuid::Uuid;

/// The metrics that this daemon has loaded.
#[boxed_futures]
pub trait LocalMetrics: Send + Sync + Debug {
    /// Loads metrics that other daemons have created. Metrics that are loaded already stay as they are,
    /// except that they get a new aggregation method if their stored windows have the same meaning under it.
    ///
    /// # Errors
    /// If the engine is shutting down.
    async fn adopt(&self, metrics: &[MetricMeta]) -> Result<(), FetchError>;

    /// Returns whether each metric is loaded, in the order of `names`.
    ///
    /// # Errors
    /// If the engine is shutting down.
    async fn contains(&self, names: &[&str]) -> Result<Vec<bool>, FetchError>;

    /// Returns for each metric whether it got a point since `since` (seconds since the epoch) or is being
    /// created, in the order of `names`.
    ///
    /// # Errors
    /// If the engine is shutting down.
    async fn are_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError>;

    /// Unloads metrics that got no point since `since` (seconds since the epoch) and have no points that are
    /// not stored yet. Returns whether each metric is not loaded now, in the order of `names`; this includes
    /// metrics that were not loaded before.
    ///
    /// # Errors
    /// If the engine is shutting down.
    async fn forget(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError>;
}

/// Why the servers acknowledge nothing at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAcknowledged {
    /// The last error, as a text for operators.
    pub why: String,
    /// Whether the servers refuse what is sent, for example because a table is missing. Otherwise they do not answer.
    pub is_refused: bool,
}

/// The rows that this daemon sends to the shared store: pending rows, and acknowledged rows that are retained
/// on the local disk.
pub trait Outbox: Send + Sync + Debug {
    /// Queues all retained rows that these servers may have lost, so that they are sent again. Once this
    /// returns, the queue survives a power cut. Returns the size in bytes of all rows that are queued to be
    /// sent again.
    ///
    /// # Errors
    ///
    /// If the local disk fails. The caller should retry only after a transient error.
    fn resend(&self, servers: &[Uuid]) -> Result<u64, StoreError>;

    /// Removes the rows of metrics that another daemon has deleted, if they were committed before the deletion. Each
    /// metric comes with the time of its deletion, in microseconds since the epoch. Blocks.
    ///
    /// # Errors
    ///
    /// If the local disk fails. The call may be repeated.
    fn forget_before(&self, deleted: &[(MetricId, i64)]) -> Result<(), StoreError>;

    /// Lets retained rows expire as if the time were `until_ms` (milliseconds of the steady clock). Younger
    /// rows are kept until a later call.
    fn release(&self, until_ms: i64);

    /// Sets whether the servers keep a commit log. Without one they lose more rows in a restart, so rows have
    /// to be retained longer.
    fn set_durable(&self, is_durable: bool);

    /// Why the servers acknowledge nothing at present; `None` if they acknowledge some rows.
    fn last_error(&self) -> Option<NotAcknowledged>;

    /// The rows that were deferred because the servers refuse them while they acknowledge others: the number
    /// of rows, and the reason if it is known. `None` if no rows are deferred.
    fn deferred(&self) -> Option<(u64, Option<String>)>;

    /// Why no more rows are accepted, as a text for operators; `None` if they are accepted.
    fn trouble(&self) -> Option<String>;
}

/// The timestamps of the rows that this daemon sends.
pub trait RowTimestamps: Send + Sync + Debug {
    /// The last timestamp that a row or deletion got, in microseconds since the epoch. Later ones are greater.
    fn last_us(&self) -> i64;

    /// Sets how far this machine's clock is behind the servers', in milliseconds. Later timestamps are moved by it.
    fn set_lag(&self, ms: i64);
}
