//! The Cassandra store as the spool sees it.

use async_trait::async_trait;
use plumbago_model::{MetricId, Stage};
use plumbago_spooled::{RemotePoints, WriteRefusal};
use plumbago_store::{Appetite, Column, PointStore, ReadRequest, StoreError, WriteBatch};
use plumbago_store_cassandra::CassandraStore;

/// Points in Cassandra.
#[derive(Debug)]
pub(super) struct CassandraPoints(pub(super) CassandraStore);

#[async_trait]
impl RemotePoints for CassandraPoints {
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        let written = self.0.writer().write_runs_at(batch, timestamp_us).await;
        written.map_err(|refusal| WriteRefusal { error: refusal.error, runs: refusal.runs })
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        self.0.read_shares(request).await
    }

    async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        self.0.delete_at(metrics, timestamp_us).await
    }

    async fn leave_to_others(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        self.0.leave_to_others(batch).await
    }

    fn appetite(&self) -> Appetite {
        self.0.appetite()
    }
}
