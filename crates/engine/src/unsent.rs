//! What this process has of metrics that other readers of the store do not see yet.

use plumbago_model::Window;
use plumbago_store::{Column, ReadRequest};

use crate::fetch::{FetchError, FetchRequest};
use crate::peers::Unsent;
use crate::reader::{Reader, overlay, stage_range, window_ranges};
use crate::shard::read::HeadAnswer;

impl Reader {
    /// What heads hold and what is on its way to the store, of the metrics that are known here and have
    /// something.
    pub async fn unsent(&self, request: &FetchRequest) -> Result<Vec<Unsent>, FetchError> {
        let answers = self.ask_heads(request).await?;
        let known: Vec<(usize, HeadAnswer)> =
            answers.into_iter().enumerate().filter_map(|(place, answer)| Some((place, answer?))).collect();
        let ranges = |of: &dyn Fn(&HeadAnswer) -> Option<_>| ReadRequest {
            ranges: known.iter().filter_map(|(_, answer)| of(answer)).collect(),
            ..ReadRequest::default()
        };
        let on_its_way = self.store.read_unsent(&ranges(&|answer| Some(stage_range(answer)))).await?;
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
                let (stage, stage_index) = (answer.plan.stage(answer.stage), answer.stage as u8);
                all.push(Unsent { place: *place as u32, stage, stage_index, rows });
            }
        }
        Ok(all)
    }
}

/// The head laid over what is on its way.
fn rows(answer: &HeadAnswer, mut column: Column, first_window: Option<Column>) -> Vec<(u32, Window)> {
    overlay(answer, &mut column, first_window);
    // Raw slots have no counts.
    column.counts.resize(column.values.len(), 1);
    let (first, end) = answer.slots;
    let known = column.values.iter().zip(&column.counts).zip(first..end);
    known
        .filter(|((value, _), _)| !value.is_nan())
        .map(|((v, c), slot)| (slot, Window { value: *v, count: *c }))
        .collect()
}
