//! Splits a batch into requests that each hold rows of one partition. No I/O.

use plumbago_model::{Aggregation, MetricId};
use plumbago_store::{RowCount, Run, WriteBatch, WriterIdentity};
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

use super::row::{Bound, Row};
use crate::config::Config;
use crate::driver::BatchRows;
use crate::layout::{self, Partition, Table};
use crate::schema;

/// Rows of one partition; no two of them have the same offset and writer key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) table: Table,
    pub(crate) id: MetricId,
    pub(crate) partition: Partition,
    pub(crate) rows: Vec<Row>,
    /// Indexes of the batch's runs that the rows are from.
    pub(crate) runs: Vec<u32>,
    /// Whether every replica has to confirm the rows, whatever the level of writes is, because one of the
    /// replicas may have lost them.
    pub(crate) is_for_all: bool,
}

impl Request {
    pub(crate) fn bind<'a>(&'a self, row: &'a Row) -> Bound<'a> {
        let start_ms = self.partition.start_ms(self.table.stage);
        Bound { id: &self.id, start_ms, coarse: self.table.coarse, row }
    }
}

impl BatchRows for Request {
    fn count(&self) -> usize {
        self.rows.len()
    }

    fn serialize(
        &self,
        at: usize,
        types: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Option<Result<(), SerializationError>> {
        self.rows.get(at).map(|row| self.bind(row).serialize(types, writer))
    }
}

/// The requests of a batch.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct WritePlan {
    pub(crate) requests: Vec<Request>,
    /// Number of slots left out because they are older than their retention.
    pub(crate) expired: u64,
}

/// Splits batches into requests.
#[derive(Debug)]
pub(crate) struct Planner {
    identity: WriterIdentity,
    now: i64,
    ttl_limit: u64,
    rows_per_request: usize,
}

/// The part of a run that lies in one partition.
#[derive(Debug, Clone, Copy)]
struct Segment {
    table: Table,
    id: MetricId,
    partition: Partition,
    /// Index of the run in the batch. Of two runs with the same slot, the later one wins.
    order: u32,
    method: Aggregation,
    offset: i16,
    len: u32,
    /// Index of its first value in the values of the batch.
    at: u32,
}

impl Planner {
    pub(crate) fn new(config: &Config, identity: WriterIdentity, now: i64) -> Self {
        Self {
            identity,
            now,
            ttl_limit: schema::ttl_limit(config, now),
            rows_per_request: config.rows_per_request as usize,
        }
    }

    pub(crate) fn plan(&self, batch: &WriteBatch) -> WritePlan {
        let mut segments = Vec::with_capacity(batch.runs.len());
        for (order, run) in batch.runs.iter().enumerate() {
            cut(run, order as u32, &mut segments);
        }
        segments.sort_unstable_by_key(|s| (s.table, s.id, s.partition, s.order));
        let mut plan = WritePlan::default();
        for group in segments.chunk_by(|a, b| (a.table, a.id, a.partition) == (b.table, b.id, b.partition)) {
            let rows = self.rows(batch, group, &mut plan.expired);
            for rows in rows.chunks(self.rows_per_request.max(1)) {
                let Segment { table, id, partition, .. } = group[0];
                let runs = group.iter().map(|segment| segment.order).collect();
                plan.requests.push(Request {
                    table,
                    id,
                    partition,
                    rows: rows.to_vec(),
                    runs,
                    is_for_all: false,
                });
            }
        }
        plan
    }

    /// The rows of a partition, each slot at most once. All rows of a request have the same timestamp, and of
    /// two cells with the same timestamp the server keeps the larger value, which may be the older one.
    fn rows(&self, batch: &WriteBatch, segments: &[Segment], expired: &mut u64) -> Vec<Row> {
        let mut slots: Vec<(i16, f64, RowCount)> = Vec::new();
        for segment in segments {
            let range = segment.at as usize..(segment.at + segment.len) as usize;
            let known = (segment.offset..).zip(&batch.values[range.clone()]).zip(&batch.counts[range]);
            let known = known.filter(|((_, value), _)| !value.is_nan());
            slots.extend(known.map(|((offset, value), count)| (offset, *value, *count)));
        }
        if segments.len() > 1 {
            // The sort is stable, so of equal offsets the last one is from the latest run.
            slots.sort_by_key(|(offset, ..)| *offset);
            slots.reverse();
            slots.dedup_by_key(|(offset, ..)| *offset);
            slots.reverse();
        }
        let mut rows = Vec::with_capacity(slots.len());
        let (table, method) = (segments[0].table, segments[0].method);
        let window = schema::window_of(table).seconds() as i64;
        let first_slot = segments[0].partition.first_slot();
        for (offset, value, count) in slots {
            match self.ttl(table, window, first_slot + offset as u32) {
                Err(()) => *expired += 1,
                Ok(ttl) => {
                    self.push(
                        table,
                        method,
                        Row { offset, writer_key: 0, value, count: 0, ttl },
                        count,
                        &mut rows,
                    );
                }
            }
        }
        rows
    }

    fn push(&self, table: Table, method: Aggregation, row: Row, count: RowCount, rows: &mut Vec<Row>) {
        if !table.coarse {
            rows.push(row);
            return;
        }
        let summed = matches!(
            method,
            Aggregation::Average | Aggregation::AvgZero | Aggregation::Sum | Aggregation::Count
        );
        let mean = matches!(method, Aggregation::Average | Aggregation::AvgZero);
        let value = if mean { layout::fit(row.value, count.get()) } else { row.value };
        for (n, count) in layout::split_count(count.get()).enumerate() {
            // Only the first row carries the sum. The others carry -0.0, which changes no sum, not even a sum
            // of -0.0.
            let value = if n > 0 && summed { -0.0 } else { value };
            rows.push(Row { writer_key: layout::writer_key(self.identity, n as u16), value, count, ..row });
        }
    }

    /// The TTL for the row of a slot. Recent slots get `None` (the table's default), slots older than a
    /// compaction window the time that remains until they expire; neither may exceed the server's limit.
    /// An error if the slot has expired.
    fn ttl(&self, table: Table, window: i64, slot: u32) -> Result<Option<i32>, ()> {
        let resolution = i64::from(table.stage.resolution);
        let start = i64::from(slot) * resolution;
        let limit = self.ttl_limit as i64;
        let age = self.now - (start + resolution);
        if age <= window {
            return Ok((table.ttl() as i64 > limit).then_some(limit as i32));
        }
        let left = start + table.ttl() as i64 - self.now;
        if left <= 0 { Err(()) } else { Ok(Some(left.min(limit) as i32)) }
    }
}

fn cut(run: &Run, order: u32, segments: &mut Vec<Segment>) {
    let table = Table::new(run.stage, run.stage_index);
    let until = run.first_slot.saturating_add(run.len);
    for (partition, from, end) in layout::partitions(run.first_slot, until) {
        let slot = partition.first_slot() + from as u32;
        segments.push(Segment {
            table,
            id: run.id,
            partition,
            order,
            method: run.aggregation,
            offset: from,
            len: (end - from) as u32,
            at: run.at + (slot - run.first_slot),
        });
    }
}

#[cfg(test)]
mod tests;
