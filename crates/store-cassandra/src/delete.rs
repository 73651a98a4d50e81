//! Deletes points: one tombstone for each partition that has a row or for which one is on its way, none for the others.
//! A partition that is deleted only in part gets a range tombstone.
//!
//! Both the search for rows and the deletion need the answer of all replicas. A replica that missed a
//! deletion for longer than `gc_grace_seconds` would bring the points back under the same id. As long as one
//! of the replicas is down, nothing is deleted in its partitions, and the caller retries.

use std::ops::Range;

use futures::TryFutureExt;
use plumbago_model::{MetricId, Stage};
use plumbago_store::{SlotRange, StoreError};
use scylla::statement::prepared::PreparedStatement;
use uuid::Uuid;

use crate::driver::{Session, Values};
use crate::layout::{self, PARTITION_SLOTS, Partition, Table};
use crate::prepared::TableStatements;
use crate::store::CassandraStore;
use crate::{error, flight};

/// How far into the future a deletion reaches, in seconds: senders with a fast clock may have written there.
const FUTURE_SECONDS: i64 = 86_400;

/// A partition, or a part of it.
#[derive(Debug, Clone, Copy)]
struct Part {
    partition: Partition,
    from: i16,
    until: i16,
    /// Whether a row may be on its way. It is older than the deletion, but without a tombstone it would stay.
    is_pending: bool,
}

impl CassandraStore {
    /// Deletes a metric's partitions of one stage from both tables that the stage may have (raw and coarse).
    pub(crate) async fn delete_stage(
        &self,
        id: MetricId,
        stage: Stage,
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        for coarse in [false, true] {
            let table = Table { stage, coarse };
            self.delete_slots(id, table, 0..u32::MAX, pending, timestamp_us).await?;
        }
        Ok(())
    }

    /// Deletes a range of slots.
    pub(crate) async fn delete_range(
        &self,
        range: &SlotRange,
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let table = Table::new(range.stage, range.stage_index);
        self.delete_slots(range.id, table, range.from..range.until, pending, timestamp_us).await
    }

    /// The partitions of a stage that may have a row now, as slots.
    fn reach(&self, stage: Stage) -> Range<u32> {
        let now = self.clock.now();
        let back = stage.duration() as i64 + layout::OUT_OF_ORDER_SECONDS as i64;
        let slot = |time: i64| u32::try_from(time.max(0) / i64::from(stage.resolution)).unwrap_or(u32::MAX);
        let (first, last) = (Partition::of(slot(now - back)), Partition::of(slot(now + FUTURE_SECONDS)));
        first.first_slot()..last.first_slot().saturating_add(PARTITION_SLOTS)
    }

    async fn delete_slots(
        &self,
        id: MetricId,
        table: Table,
        slots: Range<u32>,
        pending: &[SlotRange],
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let reach = self.reach(table.stage);
        let is_same =
            |range: &&SlotRange| range.id == id && Table::new(range.stage, range.stage_index) == table;
        let pending: Vec<&SlotRange> = pending.iter().filter(is_same).collect();
        let part = |(partition, from, until): (Partition, i16, i16)| {
            let slot = |offset: i16| partition.first_slot().saturating_add(u32::from(offset.unsigned_abs()));
            let is_in = |range: &&SlotRange| range.from < slot(until) && range.until > slot(from);
            Part { partition, from, until, is_pending: pending.iter().any(is_in) }
        };
        let parts: Vec<Part> =
            layout::partitions(slots.start.max(reach.start), slots.end.min(reach.end)).map(part).collect();
        let session = self.tables.session().await?;
        let statements = match self.tables.get(table).await {
            Ok(statements) => statements,
            Err(error) if error::is_invalid(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let delete = |i: usize| self.delete_part(&*session, &statements, table, id, parts[i], timestamp_us);
        flight::all(parts.len(), self.config.concurrency as usize, delete).await?;
        Ok(())
    }

    async fn delete_part(
        &self,
        session: &dyn Session,
        statements: &TableStatements,
        table: Table,
        id: MetricId,
        part: Part,
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let key = (Uuid::from_bytes(id.0), part.partition.start_ms(table.stage));
        if part.from == 0 && part.until == PARTITION_SLOTS as i16 {
            let statements = (&statements.any, &statements.delete);
            return self.delete_if_any(session, statements, table, &key, part.is_pending, timestamp_us).await;
        }
        let statements = (&statements.any_in, &statements.delete_in);
        let values = (key.0, key.1, part.from, part.until);
        self.delete_if_any(session, statements, table, &values, part.is_pending, timestamp_us).await
    }

    async fn delete_if_any(
        &self,
        session: &dyn Session,
        (any, delete): (&PreparedStatement, &PreparedStatement),
        table: Table,
        values: Values<'_>,
        is_pending: bool,
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let failed = |error| {
            self.stats.failed_requests.add(1);
            error::request(format!("delete from {}", table.name()), error)
        };
        if !is_pending {
            self.stats.read_requests.add(1);
            let found = session.execute_unpaged(any, values).map_err(failed).await?;
            let rows = found.into_rows_result().map_err(|error| error::answer("look for points", error))?;
            if rows.rows_num() == 0 {
                return Ok(());
            }
        }
        let mut delete = delete.clone();
        delete.set_timestamp(Some(timestamp_us));
        session.execute_unpaged(&delete, values).map_err(failed).await?;
        self.stats.partitions_deleted.add(1);
        Ok(())
    }
}
