//! Which partitions of a range have rows. The tables have no list of them, so every partition is asked for.
//! One query asks for many partitions, which costs the node and the daemon a fraction of as many single
//! reads.

use std::ops::Range;
use std::sync::Arc;

use plumbago_store::{SlotRange, StoreError};
use uuid::Uuid;

use crate::driver::Session;
use crate::layout::{self, PARTITION_SLOTS, Partition, Table};
use crate::prepared::TableStatements;
use crate::store::CassandraStore;
use crate::{error, flight};

/// Partitions in one query. ScyllaDB refuses more than 100 (`max_partition_key_restrictions_per_query`).
const PARTITIONS_AT_ONCE: u32 = 100;
/// The slots of these partitions.
const SLOTS_AT_ONCE: u32 = PARTITIONS_AT_ONCE * PARTITION_SLOTS;
/// A range with no more partitions than this is read as a whole.
const PARTITIONS_FEW: usize = 8;
/// One query costs about as much as this many requests for one partition.
const COST: usize = 16;

const OPERATION: &str = "look for partitions";

/// A query for some partitions of a range.
struct Query {
    /// The position of the range.
    at: usize,
    slots: Range<u32>,
    statements: Arc<TableStatements>,
}

impl CassandraStore {
    /// The partitions of each range that have rows, as slots. If the answer decides on a write
    /// (`is_decisive`), as many replicas are asked as for other reads that decide on writes.
    pub(crate) async fn occupied_parts(
        &self,
        ranges: &[SlotRange],
        is_decisive: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        let mut all: Vec<Vec<Range<u32>>> = Vec::with_capacity(ranges.len());
        let mut queries: Vec<Query> = Vec::new();
        for (at, range) in ranges.iter().enumerate() {
            if layout::partitions(range.from, range.until).count() <= PARTITIONS_FEW {
                all.push(vec![range.slots()]);
                continue;
            }
            match self.tables.get(Table::new(range.stage, range.stage_index)).await {
                Ok(statements) => {
                    let query = |slots| Query { at, slots, statements: statements.clone() };
                    queries.extend(cut(range).map(query));
                    all.push(Vec::new());
                }
                // A missing table holds no points. One slot is listed, so that the read of this slot reports
                // the table.
                Err(error) if error::is_invalid(&error) => {
                    all.push(std::iter::once(range.from..range.from + 1).collect());
                }
                Err(error) => return Err(error),
            }
        }
        if queries.is_empty() {
            return Ok(all);
        }
        let session = self.tables.session().await?;
        let at_once = (self.config.concurrency as usize / COST).max(1);
        let ask = |i: usize| self.with_rows(&*session, &ranges[queries[i].at], &queries[i], is_decisive);
        // The answers are in the order of the queries.
        for (at, parts) in flight::all(queries.len(), at_once, ask).await? {
            all[at].extend(parts);
        }
        Ok(all)
    }

    /// The position of the query's range, and its partitions that have a row, as slots in order.
    async fn with_rows(
        &self,
        session: &dyn Session,
        range: &SlotRange,
        query: &Query,
        is_decisive: bool,
    ) -> Result<(usize, Vec<Range<u32>>), StoreError> {
        let partitions = layout::partitions(query.slots.start, query.slots.end);
        let partitions: Vec<Partition> = partitions.map(|(partition, ..)| partition).collect();
        let starts: Vec<i64> = partitions.iter().map(|partition| partition.start_ms(range.stage)).collect();
        let mut statement = query.statements.occupied.clone();
        if is_decisive {
            statement.set_consistency(query.statements.decisive_consistency);
        }
        let values = (Uuid::from_bytes(range.id.0), &starts);
        self.stats.read_requests.add(1);
        let found = session.execute_unpaged(&statement, &values).await.map_err(|error| {
            self.stats.failed_requests.add(1);
            error::request(OPERATION, error)
        })?;
        let rows = found.into_rows_result().map_err(|error| error::answer(OPERATION, error))?;
        let mut found = Vec::new();
        for row in rows.rows::<(i64,)>().map_err(|error| error::answer(OPERATION, error))? {
            let (start,) = row.map_err(|error| error::answer(OPERATION, error))?;
            // The partitions are in the order of time.
            found.extend(starts.binary_search(&start).ok().map(|at| partitions[at]));
        }
        found.sort_unstable();
        let slots = |partition: Partition| {
            let first = partition.first_slot();
            first.max(query.slots.start)..first.saturating_add(PARTITION_SLOTS).min(query.slots.end)
        };
        Ok((query.at, found.into_iter().map(slots).collect()))
    }
}

/// Cuts a range into the slots of one query each. Queries have whole partitions, except at the ends of the range.
fn cut(range: &SlotRange) -> impl Iterator<Item = Range<u32>> + use<> {
    let (from, until) = (range.from, range.until);
    let starts = (Partition::of(from).first_slot()..until).step_by(SLOTS_AT_ONCE as usize);
    starts.map(move |start| start.max(from)..until.min(start.saturating_add(SLOTS_AT_ONCE)))
}

#[cfg(test)]
mod tests {
    use plumbago_model::{Aggregation, MetricId, Stage};

    use super::*;

    #[test]
    fn no_query_has_too_many_partitions() {
        let stage = Stage { resolution: 1, points: 1 };
        let (id, aggregation) = (MetricId::of("a"), Aggregation::Sum);
        let of = |from, until| SlotRange { id, stage, stage_index: 0, aggregation, from, until };
        let parts: Vec<_> = cut(&of(2001, 402_001)).collect();
        assert_eq!(parts, [2001..202_000, 202_000..402_000, 402_000..402_001]);
        for part in cut(&of(u32::MAX - 1_000_000, u32::MAX)) {
            assert!(layout::partitions(part.start, part.end).count() <= PARTITIONS_AT_ONCE as usize);
        }
    }
}
