//! Reads only the slots that have a value. A long range is read in pieces, and its empty parts are skipped, so that a
//! year of seconds with a few points takes little memory and time.

use std::ops::Range;
use std::sync::Arc;

use plumbago_model::Window;
use plumbago_store::{
    Column, FetchError, FetchRequest, KnownSlot, KnownSlots, PeerRows, ReadRequest, RowCount, WindowRow,
    pending_by_range,
};

use crate::pieces::{Piece, SLOTS_AT_ONCE, cut, groups};
use crate::read::{Part, Reader, merge, overlay, slots, stage_range, window_ranges};
use crate::shard::read::HeadAnswer;

/// Slots with at most this many unknown ones between them are read together.
const GAP: u32 = 512;

impl Reader {
    /// Reads the slots with a value of all metrics of a request.
    pub(super) async fn known(&self, request: &FetchRequest) -> Result<Vec<KnownSlots>, FetchError> {
        let (answers, peer_rows) = tokio::join!(self.ask_all_heads(request), self.ask_peers(request));
        let answers = answers?;
        if slots(&answers) <= SLOTS_AT_ONCE {
            let (parts, _) = self.read_parts(&request.names, answers, peer_rows).await?;
            let known = parts.into_iter().map(known_of).collect::<Vec<_>>();
            return within(request, known.iter().map(|series| series.slots.len()).sum()).map(|()| known);
        }
        let mut ranges = Vec::new();
        let (mut all, mut answering) = (Vec::new(), Vec::new());
        for (place, (name, answer)) in request.names.iter().zip(answers).enumerate() {
            let Some(answer) = answer else { continue };
            ranges.push((place, answering.len() as u32, stage_range(&answer)));
            let step = answer.layout.stage(answer.stage).resolution;
            all.push(KnownSlots { name: Arc::clone(name), step, slots: Vec::new() });
            answering.push(answer);
        }
        let peers = pending_by_range(peer_rows, &ranges);
        self.in_pieces(request, &answering, &peers, &mut all).await?;
        Ok(all)
    }

    /// Reads answers piece by piece, and appends their known slots to the series at the same position.
    async fn in_pieces(
        &self,
        request: &FetchRequest,
        answers: &[HeadAnswer],
        peers: &[PeerRows],
        all: &mut [KnownSlots],
    ) -> Result<(), FetchError> {
        let ranges: Vec<_> = answers.iter().map(stage_range).collect();
        let occupied = self.store.occupied(&ranges, false).await?;
        let mut pieces = Vec::new();
        for (at, (answer, mut parts)) in answers.iter().zip(occupied).enumerate() {
            parts.extend(held(answer));
            parts.extend(peers.iter().flat_map(|rows| sent(rows, at as u32)));
            pieces.extend(cut(parts, answer.slots).map(|slots| (at, slots)));
        }
        let mut known = 0;
        for group in groups(&pieces) {
            for (at, slots) in self.group(answers, peers, group).await? {
                known += slots.len();
                within(request, known)?;
                all[at].slots.extend(slots);
            }
        }
        Ok(())
    }

    /// Reads some pieces at once: pairs of the position of an answer and a part of its slots.
    async fn group(
        &self,
        answers: &[HeadAnswer],
        peers: &[PeerRows],
        group: &[Piece],
    ) -> Result<Vec<(usize, Vec<KnownSlot>)>, FetchError> {
        let parts: Vec<_> = group.iter().map(|(at, slots)| (*at, answers[*at].part(slots))).collect();
        let mut wanted = ReadRequest::default();
        // The number of each piece's range in the read.
        let mut numbers = Vec::with_capacity(group.len());
        for (_, part) in &parts {
            numbers.push(wanted.ranges.len() as u32);
            wanted.ranges.push(stage_range(part));
            wanted.ranges.extend(window_ranges(part));
        }
        let of_group = |rows: &PeerRows| {
            let mut of_pieces = Vec::new();
            for ((at, slots), number) in group.iter().zip(&numbers) {
                let of_piece = rows_of(rows, *at as u32).iter().filter(|(_, slot, _)| slots.contains(slot));
                of_pieces.extend(of_piece.map(|(_, slot, row)| (*number, *slot, *row)));
            }
            PeerRows { rows: of_pieces, ..*rows }
        };
        wanted.peers = peers.iter().map(of_group).filter(|peer| !peer.rows.is_empty()).collect();
        let mut columns = self.read_store(&wanted).await?.into_iter();
        let known = parts.into_iter().map(|(at, part)| {
            let column = columns.next().unwrap_or_default();
            let first_window = window_ranges(&part).and_then(|_| columns.next());
            (at, known_slots(&part, column, first_window))
        });
        Ok(known.collect())
    }
}

fn within(request: &FetchRequest, known: usize) -> Result<(), FetchError> {
    if known > request.slots_max { Err(FetchError::TooManySlots(request.slots_max)) } else { Ok(()) }
}

fn known_of(part: Part) -> KnownSlots {
    let Part { name, answer, column, first_window } = part;
    let step = answer.layout.stage(answer.stage).resolution;
    KnownSlots { name, step, slots: known_slots(&answer, column, first_window) }
}

/// The known slots of an answer. xFilesFactor hides none.
fn known_slots(answer: &HeadAnswer, mut column: Column, first_window: Option<Column>) -> Vec<KnownSlot> {
    let step = i64::from(answer.layout.stage(answer.stage).resolution);
    let time = |at: usize| (i64::from(answer.slots.0) + at as i64) * step;
    if answer.stage == 0 {
        let values = merge(answer, &mut column, first_window).into_iter().enumerate();
        let known = values.filter(|(_, value)| !value.is_nan());
        return known.map(|(at, value)| KnownSlot::raw(time(at), value)).collect();
    }
    overlay(answer, &mut column, first_window);
    let method = answer.layout.config.aggregation;
    column.merge_writers(method);
    let slots = answer.layout.per[answer.stage - 1];
    let needed = answer.layout.config.x_files_factor * f64::from(slots);
    let known = |(at, (value, count)): (usize, (&f64, &RowCount))| {
        let window = Window { value: *value, count: count.of_window() };
        let value = method.finish(window, slots);
        if window.count == 0 || value.is_nan() {
            return None;
        }
        let sum = method.sum_of(window);
        let is_shown = f64::from(window.count) >= needed;
        let slot = KnownSlot { time: time(at), value, sum, count: window.count, is_shown };
        // If the sum overflows, the slot counts as one point.
        Some(if sum.is_finite() { slot } else { KnownSlot { is_shown, ..KnownSlot::raw(time(at), value) } })
    };
    column.values.iter().zip(&column.counts).enumerate().filter_map(known).collect()
}

/// The slots that the head has.
pub(super) fn held(answer: &HeadAnswer) -> Vec<Range<u32>> {
    // Where a coarse stage answers, raw slots stand for the windows that they are folded into.
    let per = if answer.stage == 0 { 1 } else { answer.layout.per[answer.stage - 1] };
    // The first window of a percentile may have raw slots in the store only, and no row of its own yet.
    let first = window_ranges(answer).map(|_| answer.base / per);
    let raw = answer.raw.iter().map(|(slot, _)| slot / per);
    around(first.into_iter().chain(raw).chain(answer.windows.iter().map(|(window, _)| *window)))
}

/// Ranges around slots in ascending order. Slots that are close to each other share a range.
fn around(slots: impl Iterator<Item = u32>) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some(last) if (last.start..last.end.saturating_add(GAP)).contains(&slot) => {
                last.end = last.end.max(slot + 1);
            }
            _ => ranges.push(slot..slot + 1),
        }
    }
    ranges
}

/// The slots that a peer has sent for the answer at this position.
fn sent(rows: &PeerRows, at: u32) -> Vec<Range<u32>> {
    around(rows_of(rows, at).iter().map(|(_, slot, _)| *slot))
}

fn rows_of(rows: &PeerRows, at: u32) -> &[(u32, u32, WindowRow)] {
    let from = rows.rows.partition_point(|(range, ..)| *range < at);
    let until = rows.rows.partition_point(|(range, ..)| *range <= at);
    &rows.rows[from..until]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_slots_are_read_apart() {
        let near = |slots: &[u32]| around(slots.iter().copied());
        assert_eq!(near(&[1, 2, 9, 10 + GAP]), [(1, 10), (10 + GAP, 11 + GAP)].map(|(a, b)| a..b));
        assert_eq!(near(&[]), []);
    }
}
