//! Reading points: one statement for each partition, many at once.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use plumbago_model::{Clock, Window};
use plumbago_store::{Column, Others, ReadRequest, SlotRange, StoreError};
use plumbago_telemetry::Throttle;
use scylla::client::session::Session;
use scylla::response::query_result::QueryRowsResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;
use uuid::Uuid;

use crate::damage::Damage;
use crate::error;
use crate::layout::{self, Partition, Table};
use crate::merge::{self, Cell, Partial, Slot};
use crate::prepared::Tables;
use crate::stats::Stats;
use crate::told::Told;
use crate::writers::Identity;

/// Which rows of coarse stages make the values of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sight {
    /// Those of all writers.
    All,
    /// Those that other writers of the same replica have.
    Partners(Identity),
    /// Our own; those of others stand beside them.
    Shares(Identity),
}

/// Reads columns.
#[derive(Debug)]
pub(crate) struct PointReader {
    tables: Arc<Tables>,
    concurrency: usize,
    stats: Stats,
    damage: Damage,
    clock: Arc<dyn Clock>,
    throttle: Throttle,
}

/// A part of a range that lies in one partition.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Which range of the request.
    range: usize,
    partition: Partition,
    from: i16,
    until: i16,
}

/// What was found for a [`Part`]: offset, the window, and what partners and rivals have beside it.
type Found = Vec<(i16, Window, [Window; 2])>;

impl PointReader {
    pub(crate) fn new(tables: Arc<Tables>, concurrency: usize, clock: Arc<dyn Clock>, stats: Stats) -> Self {
        let damage = Damage::new(stats.damaged.clone(), clock.clone());
        Self { tables, concurrency, stats, damage, clock, throttle: Throttle::new(10_000) }
    }

    /// Reads what is wanted.
    pub(crate) async fn read(&self, request: &ReadRequest, sight: Sight) -> Result<Vec<Column>, StoreError> {
        let session = self.tables.session().await?;
        let mut columns: Vec<Column> = request.ranges.iter().map(|range| empty(range, sight)).collect();
        let mut answers = futures::stream::iter(parts(request))
            .map(|part| self.part(&session, request, part, sight))
            .buffer_unordered(self.concurrency);
        while let Some((part, found)) = answers.try_next().await? {
            let from = request.ranges[part.range].from;
            let column = &mut columns[part.range];
            for (offset, window, [partners, rivals]) in found {
                let at = (part.partition.first_slot() + offset as u32 - from) as usize;
                if window.count > 0 {
                    column.values[at] = window.value;
                }
                if let Some(known) = column.counts.get_mut(at) {
                    *known = window.count;
                }
                if let Some(others) = &mut column.others {
                    (others.partners[at], others.rivals[at]) = (partners, rivals);
                }
            }
        }
        Ok(columns)
    }

    async fn part(
        &self,
        session: &Session,
        request: &ReadRequest,
        part: Part,
        sight: Sight,
    ) -> Result<(Part, Found), StoreError> {
        let range = &request.ranges[part.range];
        let table = Table::new(range.stage, range.stage_index);
        let statements = match self.tables.get(table).await {
            Ok(statements) => statements,
            // What is not there holds no points, and the other tables do.
            Err(error) if error::is_invalid(&error) => {
                self.report_missing(&error);
                return Ok((part, Rows::new(request, part, sight, false).finish()));
            }
            Err(error) => return Err(error),
        };
        let timed = statements.select_timed.as_ref().filter(|_| merge::needs_write_time(range.aggregation));
        let statement = timed.unwrap_or(&statements.select);
        let mut rows = Rows::new(request, part, sight, timed.is_some());
        let mut state = PagingState::start();
        loop {
            let (page, next) = self.page(session, statement, range, part, table, state).await?;
            if let Err(why) = rows.take(&page, &mut |row, why| self.damage.report(&table.name(), row, why)) {
                self.damage.report(&table.name(), &range.id, &why);
            }
            match next {
                PagingStateResponse::HasMorePages { state: next } => state = next,
                PagingStateResponse::NoMorePages => break,
            }
        }
        self.stats.rows_read.add(rows.count);
        Ok((part, rows.finish()))
    }

    async fn page(
        &self,
        session: &Session,
        statement: &PreparedStatement,
        range: &SlotRange,
        part: Part,
        table: Table,
        state: PagingState,
    ) -> Result<(QueryRowsResult, PagingStateResponse), StoreError> {
        let start_ms = part.partition.start_ms(table.stage);
        let values = (Uuid::from_bytes(range.id.0), start_ms, part.from, part.until);
        self.stats.read_requests.add(1);
        let operation = || format!("read from {}", table.name());
        let (result, next) =
            session.execute_single_page(statement, values, state).await.map_err(|error| {
                self.stats.failed_requests.add(1);
                let error = error::request(operation(), error);
                if error::is_invalid(&error) {
                    self.tables.forget(table, &error.to_string());
                }
                error
            })?;
        Ok((result.into_rows_result().map_err(|error| error::answer(operation(), error))?, next))
    }

    fn report_missing(&self, error: &StoreError) {
        self.stats.tables_refused.add(1);
        if let Some(held_back) = self.throttle.pass(self.clock.now_ms()) {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::warn!(error, held_back, "a table cannot be read and counts as empty");
        }
    }
}

fn parts(request: &ReadRequest) -> Vec<Part> {
    let mut all = Vec::new();
    for (range, wanted) in request.ranges.iter().enumerate() {
        let parts = layout::partitions(wanted.from, wanted.until);
        all.extend(parts.map(|(partition, from, until)| Part { range, partition, from, until }));
    }
    all
}

fn empty(range: &SlotRange, sight: Sight) -> Column {
    let len = range.until.saturating_sub(range.from) as usize;
    let mut column = Column::unknown(len, range.stage_index > 0);
    if range.stage_index > 0 && matches!(sight, Sight::Shares(_)) {
        let unknown = vec![Window::default(); len];
        column.others = Some(Box::new(Others { partners: unknown.clone(), rivals: unknown }));
    }
    column
}

/// The rows of one slot.
#[derive(Default)]
struct Open {
    offset: i16,
    /// Those that belong together: all, or those of partners.
    slot: Slot,
    own: Vec<Cell>,
    rivals: Slot,
}

/// Rows of one part, merged while they come: rows of one slot stand together.
struct Rows<'a> {
    range: &'a SlotRange,
    part: Part,
    sight: Sight,
    timed: bool,
    told: Told,
    found: Found,
    open: Option<Open>,
    count: u64,
}

impl<'a> Rows<'a> {
    fn new(request: &'a ReadRequest, part: Part, sight: Sight, timed: bool) -> Self {
        let told = match sight {
            Sight::Shares(own) => Told::of(request, own, part.range, (part.partition, part.from, part.until)),
            Sight::All | Sight::Partners(_) => Told::default(),
        };
        let range = &request.ranges[part.range];
        Self { range, part, sight, timed, told, found: Found::new(), open: None, count: 0 }
    }

    /// Takes a page in. `damaged` hears of rows that make no sense.
    fn take(
        &mut self,
        page: &QueryRowsResult,
        damaged: &mut dyn FnMut(&dyn std::fmt::Display, &dyn std::fmt::Display),
    ) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        self.count += page.rows_num() as u64;
        if self.range.stage_index == 0 {
            for row in page.rows::<(i16, Option<f64>)>().map_err(|error| text(&error))? {
                let (offset, value) = row.map_err(|error| text(&error))?;
                match value {
                    Some(value) if self.holds(offset) => {
                        self.found.push((offset, Window { value, count: 1 }, Default::default()));
                    }
                    _ => damaged(&self.name(offset), &"it has no value or a wrong offset"),
                }
            }
        } else if self.timed {
            type Row = (i16, i16, Option<i16>, Option<f64>, Option<i64>);
            for row in page.rows::<Row>().map_err(|error| text(&error))? {
                let (offset, shard, count, value, written) = row.map_err(|error| text(&error))?;
                self.add(offset, shard, count, value, written.unwrap_or(0), damaged);
            }
        } else {
            for row in page.rows::<(i16, i16, Option<i16>, Option<f64>)>().map_err(|error| text(&error))? {
                let (offset, shard, count, value) = row.map_err(|error| text(&error))?;
                self.add(offset, shard, count, value, 0, damaged);
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        offset: i16,
        shard: i16,
        count: Option<i16>,
        value: Option<f64>,
        written_us: i64,
        damaged: &mut dyn FnMut(&dyn std::fmt::Display, &dyn std::fmt::Display),
    ) {
        let (Some(count), Some(value)) = (count, value) else {
            damaged(&self.name(offset), &"it has no value or no count");
            return;
        };
        if !self.holds(offset) {
            damaged(&self.name(offset), &"it has a wrong offset");
            return;
        }
        if !self.told.replaces(offset, shard) {
            self.put(offset, Cell { shard, value, count: i64::from(count), written_us });
        }
    }

    fn put(&mut self, offset: i16, cell: Cell) {
        if self.open.as_ref().is_none_or(|open| open.offset != offset) {
            self.close();
            let told = self.told.take(offset);
            self.open = Some(Open { offset, ..Open::default() });
            told.into_iter().for_each(|cell| self.put(offset, cell));
        }
        let Some(open) = &mut self.open else { return };
        let shard = cell.shard;
        let of_replica = |identity: Identity| layout::replica_of(shard) == identity.replica();
        match self.sight {
            Sight::Partners(identity) if identity.owns(shard) || !of_replica(identity) => {}
            Sight::Shares(identity) if identity.owns(shard) => open.own.push(cell),
            Sight::Shares(identity) if !of_replica(identity) => open.rivals.add(self.range.aggregation, cell),
            _ => open.slot.add(self.range.aggregation, cell),
        }
    }

    fn close(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        let method = self.range.aggregation;
        if !matches!(self.sight, Sight::Shares(_)) {
            let window = open.slot.window().unwrap_or_default();
            return self.found.push((open.offset, window, Default::default()));
        }
        let mut own = Partial::default();
        open.own.iter().for_each(|cell| own.add(method, *cell));
        if own.window().is_none() {
            // Rows that correct others mean nothing without them.
            open.own.iter().for_each(|cell| open.slot.add(method, *cell));
        }
        let others = [open.slot.window().unwrap_or_default(), open.rivals.window().unwrap_or_default()];
        self.found.push((open.offset, own.window().unwrap_or_default(), others));
    }

    fn holds(&self, offset: i16) -> bool {
        (self.part.from..self.part.until).contains(&offset)
    }

    fn name(&self, offset: i16) -> String {
        format!("{} partition {} offset {offset}", self.range.id, self.part.partition.first_slot())
    }

    fn finish(mut self) -> Found {
        for offset in self.told.left() {
            for cell in self.told.take(offset) {
                match self.range.stage_index {
                    0 => {
                        let window = Window { value: cell.value, count: 1 };
                        self.found.push((offset, window, Default::default()));
                    }
                    _ => self.put(offset, cell),
                }
            }
        }
        self.close();
        self.found
    }
}
