//! Adapts the engine, the spool and the leases to traits of other crates.

use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_cluster::{LeaseKeeper, LocalMetrics, NotAcknowledged, Outbox, RowTimestamps};
use plumbago_engine::Engine;
use plumbago_maintenance::JobLease;
use plumbago_model::MetricId;
use plumbago_spool::SpooledStore;
use plumbago_store::{FetchError, MetricMeta, StoreError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The engine's metrics, for the cluster.
#[derive(Debug)]
pub(in crate::serve) struct EngineMetrics(pub(in crate::serve) Engine);

#[boxed_futures]
impl LocalMetrics for EngineMetrics {
    async fn adopt(&self, metrics: &[MetricMeta]) -> Result<(), FetchError> {
        self.0.adopt(metrics).await
    }

    async fn contains(&self, names: &[&str]) -> Result<Vec<bool>, FetchError> {
        self.0.contains(names).await
    }

    async fn are_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError> {
        self.0.are_written(names, since).await
    }

    async fn forget(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError> {
        self.0.forget(names, since).await
    }
}

/// A server that acknowledged rows within this time counts as accepting rows. Rows that it refuses are
/// deferred.
const ACKNOWLEDGES: Duration = Duration::from_secs(3);

/// The rows in the spool, for the cluster.
#[derive(Debug)]
pub(super) struct SpoolOutbox(pub(super) SpooledStore);

impl Outbox for SpoolOutbox {
    fn resend(&self, servers: &[Uuid]) -> Result<u64, StoreError> {
        self.0.resend(servers)
    }

    fn forget_before(&self, deleted: &[(MetricId, i64)]) -> Result<(), StoreError> {
        self.0.forget_before(deleted)
    }

    fn set_durable(&self, is_durable: bool) {
        self.0.spool().set_durable(is_durable);
    }

    fn release(&self, until_ms: i64) {
        self.0.spool().release(until_ms);
    }

    fn last_error(&self) -> Option<NotAcknowledged> {
        let status = self.0.status();
        let acknowledges = status.last_success.is_some_and(|ago| ago < ACKNOWLEDGES);
        let is_refused = status.is_refused;
        status.last_error.filter(|_| !acknowledges).map(|why| NotAcknowledged { why, is_refused })
    }

    fn deferred(&self) -> Option<(u64, Option<String>)> {
        let status = self.0.status();
        Some((status.spool.deferred_rows, status.last_deferral)).filter(|(rows, _)| *rows > 0)
    }

    fn trouble(&self) -> Option<String> {
        self.0.spool().trouble()
    }
}

impl RowTimestamps for SpoolOutbox {
    fn last_us(&self) -> i64 {
        self.0.spool().stats().last_us
    }

    fn set_lag(&self, ms: i64) {
        self.0.spool().set_lag(ms);
    }
}

/// The leases of the shared store, for maintenance jobs.
#[derive(Debug)]
pub(super) struct JobLeases(pub(super) Arc<LeaseKeeper>);

#[boxed_futures]
impl JobLease for JobLeases {
    async fn take(&self, job: &str, lost: &CancellationToken) -> Result<bool, StoreError> {
        self.0.take(job, lost).await
    }

    async fn release(&self, job: &str) {
        self.0.release(job).await;
    }
}
