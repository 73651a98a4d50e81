//! A point store on other machines, as the spool in front of it sees it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricId, Stage};
use uuid::Uuid;

use crate::{Column, ReadRequest, SlotRange, StoreError, WriteBatch, WriteLimits};

/// A write that was acknowledged only in part.
#[derive(Debug)]
pub struct WriteRefusal {
    /// The reason why the runs were not acknowledged.
    pub error: StoreError,
    /// Indexes into the batch of the runs that were not acknowledged. Empty if the store does not know them;
    /// in that case no run counts as acknowledged.
    pub runs: Vec<usize>,
    /// Whether every run listed belongs to a part of the store that is known to be unreachable while others
    /// are not. The store did not try to write these runs, and a retry within seconds would not help.
    pub is_known_down: bool,
}

impl From<StoreError> for WriteRefusal {
    fn from(error: StoreError) -> Self {
        Self { error, runs: Vec::new(), is_known_down: false }
    }
}

/// Points in a store on other machines. Every write carries a timestamp, and of two versions of a slot the
/// one with the later timestamp stays. So writes may be repeated and may arrive in any order.
#[boxed_futures]
pub trait RemotePoints: Send + Sync + Debug {
    /// Writes runs under a timestamp (microseconds since the epoch) and returns once all are acknowledged.
    /// All runs of a call are of one stage and no slot occurs twice. [`Run::whole`](crate::Run::whole) is
    /// never set.
    ///
    /// # Errors
    /// If some runs were not acknowledged. After a transient error the caller retries them, and defers them
    /// if other runs can be written in the meantime. After a permanent error, and if all of them are in a
    /// part of the store that is known to be down, it defers them at once.
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal>;

    /// Writes only the rows that are kept on one of these servers; all rows if no server is given. Returns
    /// the number of rows written. A store that does not know where rows are kept writes all of them.
    ///
    /// # Errors
    /// As [`RemotePoints::write_at`].
    async fn write_for(
        &self,
        batch: &WriteBatch,
        timestamp_us: i64,
        _servers: &[Uuid],
    ) -> Result<u64, WriteRefusal> {
        self.write_at(batch, timestamp_us).await.map(|()| batch.known())
    }

    /// Counts the rows of a batch by the servers that keep them; a row counts for each of its replicas.
    /// Writes nothing. Empty if the store does not know where rows are kept.
    ///
    /// # Errors
    /// If the store must be reached for this but cannot be.
    async fn rows_by_server(&self, _batch: &WriteBatch) -> Result<BTreeMap<Uuid, u64>, StoreError> {
        Ok(BTreeMap::new())
    }

    /// Reads this writer's own rows as one column for each range. The windows of other writers are in
    /// [`Column::others`].
    ///
    /// # Errors
    /// If the store as a whole cannot be read.
    async fn read_own(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError>;

    /// As [`PointStore::occupied`](crate::PointStore::occupied), with the rows of all writers.
    ///
    /// # Errors
    /// If the store as a whole cannot be read.
    async fn occupied(
        &self,
        ranges: &[SlotRange],
        _is_decisive: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        Ok(crate::points::whole(ranges))
    }

    /// When the slots of these ranges were written, in microseconds since the epoch: one list for each range, with
    /// `i64::MIN` for a slot without a row. Of a coarse stage only this writer's own rows count. An empty answer means
    /// that the store cannot tell.
    ///
    /// # Errors
    /// If the store as a whole cannot be read.
    async fn written_at(&self, _ranges: &[SlotRange]) -> Result<Vec<Vec<i64>>, StoreError> {
        Ok(Vec::new())
    }

    /// Deletes everything that was written to these stages up to a timestamp (microseconds since the epoch). Rows of
    /// the slots `pending` may still be on their way: they are deleted too, even if they arrive later.
    ///
    /// # Errors
    /// A transient error if the caller has to retry.
    async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError>;

    /// Deletes everything that was written to these slots up to a timestamp (microseconds since the epoch),
    /// by any writer. `pending` is as for [`RemotePoints::delete_at`].
    ///
    /// # Errors
    /// A transient error if the caller has to retry.
    async fn delete_ranges_at(
        &self,
        ranges: &[SlotRange],
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError>;

    /// As [`PointStore::subtract_other_writers`](crate::PointStore::subtract_other_writers).
    ///
    /// # Errors
    /// If the rows of the other writers cannot be read.
    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError>;

    /// How many writes the store accepts at a time, and how large they should be.
    fn write_limits(&self) -> WriteLimits;
}

#[boxed_futures]
impl<R: RemotePoints + ?Sized> RemotePoints for Arc<R> {
    async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        (**self).write_at(batch, timestamp_us).await
    }

    async fn write_for(
        &self,
        batch: &WriteBatch,
        timestamp_us: i64,
        servers: &[Uuid],
    ) -> Result<u64, WriteRefusal> {
        (**self).write_for(batch, timestamp_us, servers).await
    }

    async fn rows_by_server(&self, batch: &WriteBatch) -> Result<BTreeMap<Uuid, u64>, StoreError> {
        (**self).rows_by_server(batch).await
    }

    async fn read_own(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        (**self).read_own(request).await
    }

    async fn occupied(
        &self,
        ranges: &[SlotRange],
        is_decisive: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        (**self).occupied(ranges, is_decisive).await
    }

    async fn written_at(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<i64>>, StoreError> {
        (**self).written_at(ranges).await
    }

    async fn delete_at(
        &self,
        metrics: &[(MetricId, Vec<Stage>)],
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        (**self).delete_at(metrics, pending, timestamp_us).await
    }

    async fn delete_ranges_at(
        &self,
        ranges: &[SlotRange],
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        (**self).delete_ranges_at(ranges, pending, timestamp_us).await
    }

    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        (**self).subtract_other_writers(batch).await
    }

    fn write_limits(&self) -> WriteLimits {
        (**self).write_limits()
    }
}
