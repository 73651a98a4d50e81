//! What a remote store has to do.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::{MetricId, Stage};
use plumbago_store::{Appetite, Column, ReadRequest, StoreError, WriteBatch};

/// A write of which not everything was acknowledged.
#[derive(Debug)]
pub struct WriteRefusal {
    /// Why.
    pub error: StoreError,
    /// The places in the batch of the runs that were not acknowledged; empty when that is not known.
    pub runs: Vec<usize>,
}

impl From<StoreError> for WriteRefusal {
    fn from(error: StoreError) -> Self {
        Self { error, runs: Vec::new() }
    }
}

/// Points in a store that other machines keep. Every write carries a timestamp, and of two versions
/// of a slot the one with the later timestamp stays: so writes may be repeated, and come late.
#[async_trait]
pub trait RemotePoints: Send + Sync + Debug {
    /// Writes runs under a timestamp, microseconds since the epoch; returns once all are acknowledged.
    /// The runs of one call are of one stage, and no slot comes twice. [`plumbago_store::Run::whole`]
    /// is never set. What is refused is repeated; it is put aside when others can be written meanwhile,
    /// at once if the error is not transient. A store that says which runs it means is spared the
    /// others.
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal>;

    /// Reads columns, as [`plumbago_store::PointStore::read`].
    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError>;

    /// Deletes what stages hold that was written up to this timestamp.
    async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        timestamp_us: i64,
    ) -> Result<(), StoreError>;

    /// As [`plumbago_store::PointStore::leave_to_others`].
    async fn leave_to_others(&self, _batch: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    /// How much it takes at once.
    fn appetite(&self) -> Appetite;
}

#[async_trait]
impl<R: RemotePoints + ?Sized> RemotePoints for Arc<R> {
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        (**self).write_at(batch, timestamp_us).await
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        (**self).read(request).await
    }

    async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        (**self).delete_at(metrics, timestamp_us).await
    }

    async fn leave_to_others(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        (**self).leave_to_others(batch).await
    }

    fn appetite(&self) -> Appetite {
        (**self).appetite()
    }
}
