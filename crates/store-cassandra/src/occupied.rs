//! Which partitions of a range have rows. The tables have no list of them, so every partition is asked for; but a query
//! for many of them costs the node and the daemon a fraction of as many reads.

use std::ops::Range;

use plumbago_store::{SlotRange, StoreError};
use scylla::client::session::Session;
use uuid::Uuid;

use crate::layout::{self, PARTITION_SLOTS, Partition, Table};
use crate::prepared::TableStatements;
use crate::store::CassandraStore;
use crate::{error, flight};

/// Partitions in one query.
const PARTITIONS_AT_ONCE: usize = 200;
/// A range with no more partitions than this is read as a whole.
const PARTITIONS_FEW: usize = 8;
/// So many requests for single partitions cost about as much as one of these queries.
const COST: usize = 16;

const OPERATION: &str = "look for partitions";

impl CassandraStore {
    /// The partitions of each range that have rows, as slots.
    pub(crate) async fn occupied_parts(
        &self,
        ranges: &[SlotRange],
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        let mut all = Vec::with_capacity(ranges.len());
        for range in ranges {
            all.push(self.occupied_of(range).await?);
        }
        Ok(all)
    }

    async fn occupied_of(&self, range: &SlotRange) -> Result<Vec<Range<u32>>, StoreError> {
        let partitions = layout::partitions(range.from, range.until).map(|(partition, ..)| partition);
        let partitions: Vec<Partition> = partitions.collect();
        if partitions.len() <= PARTITIONS_FEW {
            return Ok(std::iter::once(range.from..range.until).collect());
        }
        let session = self.tables.session().await?;
        let statements = match self.tables.get(Table::new(range.stage, range.stage_index)).await {
            Ok(statements) => statements,
            // A missing table holds no points. A read of one partition reports it.
            Err(error) if error::is_invalid(&error) => {
                return Ok(std::iter::once(range.from..range.from + 1).collect());
            }
            Err(error) => return Err(error),
        };
        let queries: Vec<&[Partition]> = partitions.chunks(PARTITIONS_AT_ONCE).collect();
        let at_once = (self.config.concurrency as usize / COST).max(1);
        let ask = |i: usize| self.with_rows(&session, &statements, range, queries[i]);
        let mut found = flight::all(queries.len(), at_once, ask).await?.concat();
        found.sort_unstable();
        let slots = |partition: Partition| {
            let first = partition.first_slot();
            first.max(range.from)..first.saturating_add(PARTITION_SLOTS).min(range.until)
        };
        Ok(found.into_iter().map(slots).collect())
    }

    /// Those of some partitions that have a row.
    async fn with_rows(
        &self,
        session: &Session,
        statements: &TableStatements,
        range: &SlotRange,
        partitions: &[Partition],
    ) -> Result<Vec<Partition>, StoreError> {
        let starts: Vec<i64> = partitions.iter().map(|partition| partition.start_ms(range.stage)).collect();
        let values = (Uuid::from_bytes(range.id.0), &starts);
        self.stats.read_requests.add(1);
        let found = session.execute_unpaged(&statements.occupied, values).await.map_err(|error| {
            self.stats.failed_requests.add(1);
            error::request(OPERATION, error)
        })?;
        let rows = found.into_rows_result().map_err(|error| error::answer(OPERATION, error))?;
        let mut with_rows = Vec::new();
        for row in rows.rows::<(i64,)>().map_err(|error| error::answer(OPERATION, error))? {
            let (start,) = row.map_err(|error| error::answer(OPERATION, error))?;
            // The partitions are in the order of time.
            with_rows.extend(starts.binary_search(&start).ok().map(|at| partitions[at]));
        }
        Ok(with_rows)
    }
}
