//! Deletes points: one tombstone for each partition that has a row, none for the others.
//!
//! Both the look and the deletion ask all replicas. A replica that missed a deletion for longer than
//! `gc_grace_seconds` would bring the points back under the same id. As long as one is down, nothing is deleted in its
//! partitions, and the caller retries.

use futures::TryFutureExt;
use plumbago_model::{MetricId, Stage};
use plumbago_store::StoreError;
use scylla::client::session::Session;
use uuid::Uuid;

use crate::layout::{self, Partition, Table};
use crate::prepared::TableStatements;
use crate::store::CassandraStore;
use crate::{error, flight};

/// How far into the future a deletion reaches, in seconds: senders with a fast clock may have written there.
const FUTURE_SECONDS: i64 = 86_400;

impl CassandraStore {
    /// Deletes a metric's partitions of one stage from both tables that the stage may have (raw and coarse).
    pub(crate) async fn delete_stage(
        &self,
        id: MetricId,
        stage: Stage,
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let session = self.tables.session().await?;
        let now = self.clock.now();
        let reach = stage.duration() as i64 + layout::OUT_OF_ORDER_SECONDS as i64;
        let slot = |time: i64| u32::try_from(time.max(0) / i64::from(stage.resolution)).unwrap_or(u32::MAX);
        let first = Partition::of(slot(now - reach)).0;
        let count = (Partition::of(slot(now + FUTURE_SECONDS)).0 - first + 1) as usize;
        for coarse in [false, true] {
            let table = Table { stage, coarse };
            let statements = match self.tables.get(table).await {
                Ok(statements) => statements,
                Err(error) if error::is_invalid(&error) => continue,
                Err(error) => return Err(error),
            };
            let delete = |i: usize| {
                let values = (Uuid::from_bytes(id.0), Partition(first + i as u32).start_ms(stage));
                self.delete_partition(&session, &statements, table, values, timestamp_us)
            };
            flight::all(count, self.config.concurrency as usize, delete).await?;
        }
        Ok(())
    }

    async fn delete_partition(
        &self,
        session: &Session,
        statements: &TableStatements,
        table: Table,
        values: (Uuid, i64),
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let failed = |error| {
            self.stats.failed_requests.add(1);
            error::request(format!("delete from {}", table.name()), error)
        };
        self.stats.read_requests.add(1);
        let found = session.execute_unpaged(&statements.any, values).map_err(failed).await?;
        let rows = found.into_rows_result().map_err(|error| error::answer("look for points", error))?;
        if rows.rows_num() == 0 {
            return Ok(());
        }
        let mut delete = statements.delete.clone();
        delete.set_timestamp(Some(timestamp_us));
        session.execute_unpaged(&delete, values).map_err(failed).await?;
        self.stats.partitions_deleted.add(1);
        Ok(())
    }
}
