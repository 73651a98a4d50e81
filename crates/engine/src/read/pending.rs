//! Points that this process has accepted and that other readers do not find in the store yet.

use plumbago_store::{Column, FetchError, FetchRequest, PendingRows, ReadRequest, RowCount, WindowRow};

use crate::read::{Reader, overlay, stage_range, window_ranges};
use crate::shard::read::HeadAnswer;

impl Reader {
    /// Returns what heads hold and what is on its way to the store. Metrics without such points are left out.
    ///
    /// # Errors
    /// When the store or the spool cannot be read, and when the engine was stopped.
    pub async fn pending(&self, request: &FetchRequest) -> Result<Vec<PendingRows>, FetchError> {
        let answers = self.ask_heads(request).await?;
        let known: Vec<(usize, HeadAnswer)> =
            answers.into_iter().enumerate().filter_map(|(place, answer)| Some((place, answer?))).collect();
        let ranges = |of: &dyn Fn(&HeadAnswer) -> Option<_>| ReadRequest {
            ranges: known.iter().filter_map(|(_, answer)| of(answer)).collect(),
            ..ReadRequest::default()
        };
        let on_its_way = self.store.read_pending(&ranges(&|answer| Some(stage_range(answer)))).await?;
        // Percentiles of a window need all of its slots.
        let of_windows = ranges(&window_ranges);
        let mut first_windows = match of_windows.ranges.is_empty() {
            true => Vec::new(),
            false => self.store.read(&of_windows).await?,
        }
        .into_iter();
        let mut all = Vec::new();
        for ((place, answer), column) in known.iter().zip(on_its_way) {
            let first_window = window_ranges(answer).and_then(|_| first_windows.next());
            let rows = rows(answer, column, first_window);
            if !rows.is_empty() {
                let (stage, stage_index) = (answer.layout.stage(answer.stage), answer.stage as u8);
                all.push(PendingRows { name_index: *place as u32, stage, stage_index, rows });
            }
        }
        Ok(all)
    }
}

/// The slots on their way to the store, with those of the head in their place.
fn rows(answer: &HeadAnswer, mut column: Column, first_window: Option<Column>) -> Vec<(u32, WindowRow)> {
    overlay(answer, &mut column, first_window);
    // Raw slots have no counts.
    column.counts.resize(column.values.len(), RowCount::ONE);
    let (first, end) = answer.slots;
    let known = column.values.iter().zip(&column.counts).zip(first..end);
    known
        .filter(|((value, _), _)| !value.is_nan())
        .map(|((v, c), slot)| (slot, WindowRow { value: *v, count: *c }))
        .collect()
}
