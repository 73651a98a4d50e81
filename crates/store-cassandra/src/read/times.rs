//! When slots were written: a row that still waits to be sent may be older than what the table has.

use futures::{StreamExt, TryStreamExt};
use plumbago_store::{ReadRequest, SlotRange, StoreError, WriterIdentity};
use scylla::response::query_result::QueryRowsResult;
use scylla::response::{PagingState, PagingStateResponse};

use super::{Part, PointReader, parts};
use crate::driver::Session;
use crate::error;
use crate::layout::{self, Table};

/// The offset of a row, and when it was written (microseconds since the epoch).
type Time = (i16, i64);

impl PointReader {
    /// When the slots of ranges were written, in microseconds since the epoch: one list for each range, `i64::MIN` where
    /// there is no row. Of a coarse stage only the rows of one writer count.
    pub(crate) async fn written_at(
        &self,
        ranges: &[SlotRange],
        writer: WriterIdentity,
    ) -> Result<Vec<Vec<i64>>, StoreError> {
        let session = self.tables.session().await?;
        let request = ReadRequest { ranges: ranges.to_vec(), ..Default::default() };
        let unknown = |range: &SlotRange| vec![i64::MIN; range.until.saturating_sub(range.from) as usize];
        let mut times: Vec<Vec<i64>> = ranges.iter().map(unknown).collect();
        let mut answers = futures::stream::iter(parts(&request))
            .map(|part| self.times_of(&*session, &ranges[part.range], part, writer))
            .buffer_unordered(self.concurrency);
        while let Some((part, found)) = answers.try_next().await? {
            let from = ranges[part.range].from;
            for (offset, written_us) in found {
                let at = (part.partition.first_slot() + offset as u32 - from) as usize;
                if let Some(time) = times[part.range].get_mut(at) {
                    *time = (*time).max(written_us);
                }
            }
        }
        Ok(times)
    }

    async fn times_of(
        &self,
        session: &dyn Session,
        range: &SlotRange,
        part: Part,
        writer: WriterIdentity,
    ) -> Result<(Part, Vec<Time>), StoreError> {
        let table = Table::new(range.stage, range.stage_index);
        let statements = match self.tables.get(table).await {
            Ok(statements) => statements,
            // A missing table has no rows.
            Err(error) if error::is_invalid(&error) => return Ok((part, Vec::new())),
            Err(error) => return Err(error),
        };
        let mut statement = statements.select_timed.clone();
        statement.set_consistency(statements.decisive_consistency);
        let mut found = Vec::new();
        let mut state = PagingState::start();
        loop {
            let (page, next) = self.page(session, &statement, range, part, table, state).await?;
            if let Err(why) = take(&page, range.stage_index > 0, writer, &mut found) {
                self.damage.report(&table.name(), &range.id, &why);
            }
            match next {
                PagingStateResponse::HasMorePages { state: next } => state = next,
                PagingStateResponse::NoMorePages => break,
            }
        }
        found.retain(|(offset, _)| (part.from..part.until).contains(offset));
        Ok((part, found))
    }
}

/// Adds the times of a page. Fails if the page does not have the expected columns.
fn take(
    page: &QueryRowsResult,
    is_coarse: bool,
    writer: WriterIdentity,
    found: &mut Vec<Time>,
) -> Result<(), String> {
    if is_coarse {
        type Row = (i16, i16, Option<i16>, Option<f64>, Option<i64>);
        for row in page.rows::<Row>().map_err(|error| error.to_string())? {
            let (offset, key, _, _, written) = row.map_err(|error| error.to_string())?;
            if layout::writer_of(key).0 == writer {
                found.extend(written.map(|written_us| (offset, written_us)));
            }
        }
    } else {
        for row in page.rows::<(i16, Option<f64>, Option<i64>)>().map_err(|error| error.to_string())? {
            let (offset, _, written) = row.map_err(|error| error.to_string())?;
            found.extend(written.map(|written_us| (offset, written_us)));
        }
    }
    Ok(())
}
