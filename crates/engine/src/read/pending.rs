//! Points that this process has accepted and that other readers do not yet find in the store.

use std::sync::Arc;

use plumbago_store::{Column, FetchError, FetchRequest, PendingRows, ReadRequest, RowCount, WindowRow};

use crate::pieces::{Piece, SLOTS_AT_ONCE, cut, groups};
use crate::read::known::held;
use crate::read::{Reader, overlay, slots, stage_range, window_ranges};
use crate::shard::read::HeadAnswer;

impl Reader {
    /// Returns the points that heads hold and those on their way to the store. Metrics without such points
    /// are left out.
    ///
    /// # Errors
    ///
    /// If the store or the spool cannot be read, or if the engine was stopped.
    pub async fn pending(&self, request: &FetchRequest) -> Result<Vec<PendingRows>, FetchError> {
        let answers = self.ask_heads(request).await?;
        let mut all: Vec<PendingRows> = Vec::new();
        for group in groups(&self.pieces(&answers).await?) {
            let parts: Vec<_> = parts(&answers, group);
            for ((place, answer), rows) in parts.iter().zip(self.pending_of(&parts).await?) {
                match all.last_mut() {
                    Some(last) if last.name_index == *place as u32 => last.rows.extend(rows),
                    _ if rows.is_empty() => {}
                    _ => {
                        let (stage, stage_index) = (answer.layout.stage(answer.stage), answer.stage as u8);
                        all.push(PendingRows { name_index: *place as u32, stage, stage_index, rows });
                    }
                }
            }
        }
        Ok(all)
    }

    /// The pending rows of each of these answers.
    async fn pending_of(
        &self,
        answers: &[(usize, HeadAnswer)],
    ) -> Result<Vec<Vec<(u32, WindowRow)>>, FetchError> {
        let ranges = |of: &dyn Fn(&HeadAnswer) -> Option<_>| ReadRequest {
            ranges: answers.iter().filter_map(|(_, answer)| of(answer)).collect(),
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
        let rows = answers.iter().zip(on_its_way).map(|((_, answer), column)| {
            let first_window = window_ranges(answer).and_then(|_| first_windows.next());
            rows(answer, column, first_window)
        });
        Ok(rows.collect())
    }

    /// Returns the raw points of each metric that are accepted and not in the store's tables yet, as times of
    /// their slots (seconds since the epoch) and values, in time order. They include slots that a head still
    /// holds after their flush, at most twenty per metric. `None` if there are more than `points_max` points
    /// in total.
    ///
    /// # Errors
    /// When the spool cannot be read, and when the engine was stopped.
    pub async fn pending_raw(
        &self,
        names: &[Arc<str>],
        now: i64,
        points_max: usize,
    ) -> Result<Option<Vec<RawPoints>>, FetchError> {
        let request =
            FetchRequest { names: names.to_vec(), from: now, until: now, now, slots_max: usize::MAX };
        let answers = self.ask_heads_for(&request, true).await?;
        let mut all = vec![RawPoints::new(); names.len()];
        let mut left = points_max;
        for group in groups(&self.pieces(&answers).await?) {
            let parts: Vec<_> = parts(&answers, group);
            let on_its_way = self.on_its_way(parts.iter().map(|(_, answer)| answer)).await?;
            for ((place, answer), column) in parts.iter().zip(on_its_way) {
                let points = raw_points(answer, &column);
                left = match left.checked_sub(points.len()) {
                    Some(left) => left,
                    None => return Ok(None),
                };
                all[*place].extend(points);
            }
        }
        Ok(Some(all))
    }

    /// The slots of the answers that may have rows, in pieces that are not too long for one read. Short answers are
    /// taken as a whole: looking for their rows would cost as much as reading them.
    async fn pieces(&self, answers: &[Option<HeadAnswer>]) -> Result<Vec<Piece>, FetchError> {
        let known = answers.iter().enumerate().filter_map(|(place, answer)| Some((place, answer.as_ref()?)));
        if slots(answers) <= SLOTS_AT_ONCE {
            let whole = known.map(|(place, answer)| (place, answer.slots.0..answer.slots.1));
            return Ok(whole.filter(|(_, slots)| !slots.is_empty()).collect());
        }
        let known: Vec<(usize, &HeadAnswer)> = known.collect();
        let ranges: Vec<_> = known.iter().map(|(_, answer)| stage_range(answer)).collect();
        let pending = self.store.occupied_pending(&ranges).await?;
        let mut pieces = Vec::new();
        for ((place, answer), mut parts) in known.into_iter().zip(pending) {
            parts.extend(held(answer));
            pieces.extend(cut(parts, answer.slots).map(|slots| (place, slots)));
        }
        Ok(pieces)
    }

    /// The slots of these answers that are on their way to the store. The columns are empty if the store has
    /// no such slots.
    pub(super) async fn on_its_way(
        &self,
        answers: impl Iterator<Item = &HeadAnswer>,
    ) -> Result<Vec<Column>, FetchError> {
        let ranges: Vec<_> = answers.map(stage_range).collect();
        if !self.store.capabilities().pending_rows {
            return Ok(vec![Column::default(); ranges.len()]);
        }
        Ok(self.store.read_pending(&ReadRequest { ranges, ..ReadRequest::default() }).await?)
    }
}

/// Raw points of a metric: time in seconds since the epoch, and value.
pub type RawPoints = Vec<(u32, f64)>;

/// The parts of the answers that these pieces stand for.
fn parts(answers: &[Option<HeadAnswer>], group: &[Piece]) -> Vec<(usize, HeadAnswer)> {
    let part = |(place, slots): &Piece| Some((*place, answers[*place].as_ref()?.part(slots)));
    group.iter().filter_map(part).collect()
}

/// The raw slots of a column. Where the head has a slot, its value is used.
fn raw_points(answer: &HeadAnswer, column: &Column) -> RawPoints {
    let is_held = |slot: u32| answer.raw.binary_search_by_key(&slot, |(slot, _)| *slot).is_ok();
    let sent = (answer.slots.0..).zip(&column.values).map(|(slot, value)| (slot, *value));
    let mut points: Vec<(u32, f64)> =
        sent.filter(|(slot, value)| !value.is_nan() && !is_held(*slot)).collect();
    points.extend_from_slice(&answer.raw);
    points.sort_unstable_by_key(|(slot, _)| *slot);
    let resolution = answer.layout.raw.resolution;
    points.into_iter().map(|(slot, value)| (slot.saturating_mul(resolution), value)).collect()
}

/// The slots on their way to the store. Where the head has a slot, its value is used.
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
