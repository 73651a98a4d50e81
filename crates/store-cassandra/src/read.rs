//! Reads points: one query for each partition, many at once.

mod times;

use std::borrow::Cow;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use plumbago_model::{Aggregation, Clock};
use plumbago_store::{
    Column, OtherReplica, OtherWriters, ReadRequest, ReplicaWindow, RowCount, SlotRange, SlotRow, SlotWindow,
    StoreError, WindowRow, WriterIdentity, WriterRow, merge,
};
use plumbago_telemetry::Throttle;
use scylla::response::query_result::QueryRowsResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;
use uuid::Uuid;

use crate::damage::DamageReporter;
use crate::driver::Session;
use crate::error;
use crate::layout::{self, COUNT_MAX, Partition, Table};
use crate::peer_overlay::PeerOverlay;
use crate::prepared::Tables;
use crate::stats::Stats;

/// Which writers' rows of a coarse stage go into the values of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View {
    /// The rows of all writers, merged.
    Merged,
    /// The rows of the other writers of this writer's replica, merged.
    SameReplica(WriterIdentity),
    /// The rows of this writer as values, and the merged rows of the others in [`Column::others`].
    OwnAndOthers(WriterIdentity),
    /// Each row by itself, not merged.
    Each,
}

/// Reads points from the tables of the stages.
#[derive(Debug)]
pub(crate) struct PointReader {
    tables: Arc<Tables>,
    concurrency: usize,
    stats: Stats,
    damage: DamageReporter,
    clock: Arc<dyn Clock>,
    throttle: Throttle,
}

/// The part of a range that lies in one partition: the offsets `from..until`.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Index of the range in the request.
    range: usize,
    partition: Partition,
    from: i16,
    until: i16,
}

/// A slot with points, found for a [`Part`].
struct Found {
    offset: i16,
    row: WindowRow,
    same_replica: WindowRow,
    other_replicas: OtherReplica,
    /// The rows of the slot, with [`View::Each`].
    rows: Vec<WriterRow>,
}

impl Found {
    /// A slot for which the view does not separate other writers' rows.
    fn alone(offset: i16, row: WindowRow) -> Self {
        let (same_replica, other_replicas) = (WindowRow::NONE, OtherReplica::default());
        Self { offset, row, same_replica, other_replicas, rows: Vec::new() }
    }
}

impl PointReader {
    pub(crate) fn new(tables: Arc<Tables>, concurrency: usize, clock: Arc<dyn Clock>, stats: Stats) -> Self {
        let damage = DamageReporter::new(stats.damaged.clone(), clock.clone());
        Self { tables, concurrency, stats, damage, clock, throttle: Throttle::new(10_000) }
    }

    /// Reads all ranges of a request. Returns one column per range, in the same order.
    pub(crate) async fn read(&self, request: &ReadRequest, view: View) -> Result<Vec<Column>, StoreError> {
        let session = self.tables.session().await?;
        let mut columns: Vec<Column> = request.ranges.iter().map(|range| empty(range, view)).collect();
        let mut answers = futures::stream::iter(parts(request))
            .map(|part| self.part(&*session, request, part, view))
            .buffer_unordered(self.concurrency);
        while let Some((part, found)) = answers.try_next().await? {
            let from = request.ranges[part.range].from;
            let column = &mut columns[part.range];
            for slot in found {
                let at = (part.partition.first_slot() + slot.offset as u32 - from) as usize;
                column.values[at] = slot.row.value;
                if let Some(count) = column.counts.get_mut(at) {
                    *count = slot.row.count;
                }
                if let Some(others) = &mut column.others {
                    others.same_replica[at] = slot.same_replica;
                    others.other_replicas[at] = slot.other_replicas;
                }
            }
        }
        Ok(columns)
    }

    /// Reads the rows of all writers in ranges of coarse stages. Returns one list per range, ordered by slot.
    pub(crate) async fn read_rows(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<SlotRow>>, StoreError> {
        let session = self.tables.session().await?;
        let request = ReadRequest { ranges: ranges.to_vec(), include_retained: true, ..Default::default() };
        let mut lists: Vec<Vec<SlotRow>> = vec![Vec::new(); ranges.len()];
        let mut answers = futures::stream::iter(parts(&request))
            .map(|part| self.part(&*session, &request, part, View::Each))
            .buffer_unordered(self.concurrency);
        while let Some((part, found)) = answers.try_next().await? {
            for slot in found {
                let number = part.partition.first_slot() + slot.offset as u32;
                lists[part.range].extend(slot.rows.into_iter().map(|row| (number, row)));
            }
        }
        lists.iter_mut().for_each(|rows| rows.sort_by_key(|(slot, _)| *slot));
        Ok(lists)
    }

    async fn part(
        &self,
        session: &dyn Session,
        request: &ReadRequest,
        part: Part,
        view: View,
    ) -> Result<(Part, Vec<Found>), StoreError> {
        let range = &request.ranges[part.range];
        let table = Table::new(range.stage, range.stage_index);
        let statements = match self.tables.get(table).await {
            Ok(statements) => statements,
            // A missing table holds no points; the other tables can still be read.
            Err(error) if error::is_invalid(&error) => {
                self.report_missing(&error);
                return Ok((part, Rows::new(request, part, view, false).finish()));
            }
            Err(error) => return Err(error),
        };
        let timed = range.stage_index > 0 && merge::needs_write_time(range.aggregation);
        let mut statement = Cow::Borrowed(if timed { &statements.select_timed } else { &statements.select });
        if decides_on_a_write(request, view) {
            statement.to_mut().set_consistency(statements.decisive_consistency);
        }
        let mut rows = Rows::new(request, part, view, timed);
        let mut state = PagingState::start();
        loop {
            let (page, next) = self.page(session, &statement, range, part, table, state).await?;
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
        session: &dyn Session,
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
            session.execute_single_page(statement, &values, state).await.map_err(|error| {
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
        if let Some(suppressed) = self.throttle.pass(self.clock.now_ms()) {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::warn!(error, suppressed, "a table cannot be read, so it counts as empty");
        }
    }
}

/// Whether rows are computed from the answer. Such a read must see every row that was confirmed: a replica
/// that lags would make windows permanently wrong.
fn decides_on_a_write(request: &ReadRequest, view: View) -> bool {
    request.include_retained || matches!(view, View::SameReplica(_))
}

fn parts(request: &ReadRequest) -> Vec<Part> {
    let mut all = Vec::new();
    for (range, wanted) in request.ranges.iter().enumerate() {
        let parts = layout::partitions(wanted.from, wanted.until);
        all.extend(parts.map(|(partition, from, until)| Part { range, partition, from, until }));
    }
    all
}

fn empty(range: &SlotRange, view: View) -> Column {
    let len = range.until.saturating_sub(range.from) as usize;
    let mut column = Column::unknown(len, range.stage_index > 0);
    if range.stage_index > 0 && matches!(view, View::OwnAndOthers(_)) {
        let others = OtherWriters {
            same_replica: vec![WindowRow::NONE; len],
            other_replicas: vec![OtherReplica::default(); len],
        };
        column.others = Some(Box::new(others));
    }
    column
}

/// The slot whose rows are currently collected.
#[derive(Default)]
struct OpenSlot {
    offset: i16,
    /// Rows of all writers, or only of the other writers of this replica, depending on the view.
    merged: SlotWindow,
    /// Rows of this writer, or of all of them with [`View::Each`].
    own: Vec<WriterRow>,
    other_replicas: SlotWindow,
}

/// Merges the rows of one part as they are read. The server returns the rows of a slot together.
struct Rows<'a> {
    range: &'a SlotRange,
    part: Part,
    view: View,
    timed: bool,
    peers: PeerOverlay,
    found: Vec<Found>,
    open: Option<OpenSlot>,
    count: u64,
}

impl<'a> Rows<'a> {
    fn new(request: &'a ReadRequest, part: Part, view: View, timed: bool) -> Self {
        let slots = (part.partition, part.from, part.until);
        let peers = match view {
            View::OwnAndOthers(own) => PeerOverlay::of(request, own, part.range, slots),
            View::Merged | View::SameReplica(_) | View::Each => PeerOverlay::default(),
        };
        let range = &request.ranges[part.range];
        Self { range, part, view, timed, peers, found: Vec::new(), open: None, count: 0 }
    }

    /// Adds a page of rows. Calls `damaged` for each row that is skipped because its values make no sense.
    /// Fails if the page does not have the expected columns.
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
                        self.found.push(Found::alone(offset, WindowRow { value, count: RowCount::ONE }));
                    }
                    _ => damaged(&self.name(offset), &"it has no value or a wrong offset"),
                }
            }
        } else if self.timed {
            type Row = (i16, i16, Option<i16>, Option<f64>, Option<i64>);
            for row in page.rows::<Row>().map_err(|error| text(&error))? {
                let (offset, key, count, value, written) = row.map_err(|error| text(&error))?;
                self.add(offset, key, count, value, written.unwrap_or(0), damaged);
            }
        } else {
            for row in page.rows::<(i16, i16, Option<i16>, Option<f64>)>().map_err(|error| text(&error))? {
                let (offset, key, count, value) = row.map_err(|error| text(&error))?;
                self.add(offset, key, count, value, 0, damaged);
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        offset: i16,
        key: i16,
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
        let (writer, part) = layout::writer_of(key);
        if !self.peers.replaces(offset, writer) {
            let row = WindowRow { value, count: RowCount::new(i32::from(count)) };
            let is_full = i32::from(count) == COUNT_MAX;
            self.put(offset, WriterRow { writer, part, row, written_us, is_full });
        }
    }

    fn put(&mut self, offset: i16, row: WriterRow) {
        if self.open.as_ref().is_none_or(|open| open.offset != offset) {
            self.close();
            let pending = self.peers.take(offset);
            self.open = Some(OpenSlot { offset, ..OpenSlot::default() });
            pending.into_iter().for_each(|row| self.put(offset, row));
        }
        let Some(open) = &mut self.open else { return };
        let (writer, method) = (row.writer, self.range.aggregation);
        match self.view {
            View::SameReplica(own) if writer == own || writer.replica() != own.replica() => {}
            View::OwnAndOthers(own) if writer == own => open.own.push(row),
            View::Each => open.own.push(row),
            View::OwnAndOthers(own) if writer.replica() != own.replica() => {
                open.other_replicas.add(method, row);
            }
            _ => open.merged.add(method, row),
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let found = match self.view {
            View::Merged => {
                let row = open.merged.window().map_or(WindowRow::NONE, WindowRow::from);
                Found::alone(open.offset, row)
            }
            View::SameReplica(own) => Found::alone(open.offset, open.merged.replica(own.replica()).row()),
            View::Each => Found { rows: open.own, ..Found::alone(open.offset, WindowRow::NONE) },
            View::OwnAndOthers(own) => {
                let method = self.range.aggregation;
                let (mut mine, same) = (ReplicaWindow::default(), open.merged.replica(own.replica()));
                open.own.iter().for_each(|row| mine.add(method, *row));
                let mut row = mine.row();
                let one_wins = matches!(method, Aggregation::Last | Aggregation::Percentile(_));
                if one_wins && mine.loses_to(same) {
                    // A merge of the two rows may use the value of our row, so our row must have the value
                    // that wins.
                    row.value = same.row().value;
                }
                let other_replicas = open.other_replicas.of_others(own.replica());
                Found { same_replica: same.row(), other_replicas, ..Found::alone(open.offset, row) }
            }
        };
        self.found.push(found);
    }

    fn holds(&self, offset: i16) -> bool {
        (self.part.from..self.part.until).contains(&offset)
    }

    fn name(&self, offset: i16) -> String {
        format!("{} partition {} offset {offset}", self.range.id, self.part.partition.first_slot())
    }

    fn finish(mut self) -> Vec<Found> {
        for offset in self.peers.left() {
            for row in self.peers.take(offset) {
                match self.range.stage_index {
                    0 => {
                        let row = WindowRow { value: row.row.value, count: RowCount::ONE };
                        self.found.push(Found::alone(offset, row));
                    }
                    _ => self.put(offset, row),
                }
            }
        }
        self.close();
        self.found
    }
}
