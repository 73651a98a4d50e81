//! The heads of metrics from which a time range is deleted (`docs/decisions/delete.md`).
//!
//! As during an import, the metric is blocked: none of its points go to the store until
//! [`Shard::end_import`], so its base and its open windows do not change. Points in the range that the head
//! holds are dropped at once; points that arrive later are kept.

use std::ops::Range;
use std::sync::Arc;

use plumbago_journal::JournalWriter;
use plumbago_model::Stage;
use plumbago_store::TimeRange;

use super::{NUMBER_BITS, Shard};
use crate::router::NameHash;
use crate::shard::downsample::MetricLayout;
use crate::shard::head::Pairs;
use crate::shard::head_state::mark;
use crate::shard::import::{Begun, ImportHead};
use crate::shard::jobs::LatePoint;
use crate::stats::Reject;

/// A metric from which a range is about to be deleted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeginRange {
    pub(crate) hash: NameHash,
    pub(crate) range: TimeRange,
    pub(crate) ask: Ask,
}

/// A request about a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Only return the content.
    Look,
    /// Begin the deletion. If that is not possible now, no point of the metric goes to the store until the
    /// next request about it.
    Begin,
    /// Stop waiting for the metric.
    Leave,
    /// Begin to copy the metric; nothing is dropped. The metric is busy until its late points are in the
    /// store.
    Copy,
}

/// The slots of the raw stage that begin within a range of time.
pub(crate) fn raw_slots(range: TimeRange, raw: Stage) -> Range<u32> {
    range.from.div_ceil(raw.resolution)..range.until.div_ceil(raw.resolution)
}

/// The slots of a stage that lie entirely within a range of raw slots.
pub(crate) fn whole_slots(layout: &MetricLayout, stage: usize, slots: &Range<u32>) -> Range<u32> {
    let per = if stage == 0 { 1 } else { layout.per[stage - 1] };
    let from = slots.start.div_ceil(per);
    from..(slots.end / per).max(from)
}

impl Shard {
    /// Drops the points of a head in the range, keeps the metric from being flushed, and returns the rest of
    /// the head's content. A dry run drops nothing. Dropped points count as rejected.
    pub(crate) fn begin_range(&mut self, begin: &BeginRange, writer: &mut JournalWriter) -> Begun {
        if begin.ask == Ask::Copy {
            return self.begin_copy(&begin.hash);
        }
        if begin.ask != Ask::Look {
            self.late.awaited.remove(&begin.hash);
        }
        let at = match self.at_rest(&begin.hash) {
            Ok(at) if begin.ask != Ask::Leave => at,
            Ok(_) => return Begun::Busy,
            Err(begun) => {
                // Late points of the metric that wait in the journal are read only after pending ones have
                // been stored, so storing must continue.
                let has_waiting = self.find(&begin.hash).is_some_and(|at| self.late.waiting.contains(at));
                if matches!((&begun, begin.ask), (Begun::Busy, Ask::Begin)) && !has_waiting {
                    self.late.awaited.insert(begin.hash);
                }
                return begun;
            }
        };
        let dry_run = begin.ask == Ask::Look;
        let layout = Arc::clone(&self.layouts[usize::from(self.heads[at].config)]);
        let slots = raw_slots(begin.range, layout.raw);
        let mut dropped = 0;
        if !dry_run {
            self.block_flushes(at);
            dropped = self.discard_range(at, &layout, &slots);
        }
        let (base, is_refolded) = {
            let head = &self.heads[at];
            (if head.is(mark::PLACED) { head.base } else { 0 }, head.is(mark::REFOLD))
        };
        let head = self.import_head(at, base, base);
        if !dry_run {
            self.journal_late_again(at, &layout, writer);
        }
        Begun::Ready(Box::new(ImportHead { dropped, is_refolded, ..head }))
    }

    /// The head of a metric that has no points on their way to the store. Late points may be pending in
    /// memory.
    pub(super) fn at_rest(&self, hash: &NameHash) -> Result<u32, Begun> {
        if self.deletions.contains(hash) {
            return Err(Begun::Busy);
        }
        let Some(at) = self.find(hash) else { return Err(Begun::Unknown) };
        let state = self.heads[at].state;
        let is_moving = state.is_flushing() || self.late.is_in_flight(at) || self.late.waiting.contains(at);
        if state.is_created() && !is_moving { Ok(at) } else { Err(Begun::Busy) }
    }

    /// Drops the head's points in these slots, including late points and points ahead of now. Returns how
    /// many there were.
    fn discard_range(&mut self, at: u32, layout: &MetricLayout, slots: &Range<u32>) -> u64 {
        let mut pairs = Pairs::new();
        let head = &mut self.heads[at];
        head.pairs(&self.pool, &mut self.scratch, &mut pairs);
        let before = pairs.len();
        pairs.retain(|(slot, _)| !slots.contains(slot));
        let mut dropped = (before - pairs.len()) as u64;
        if dropped > 0 {
            head.refill(&mut self.pool, &mut self.scratch, &pairs);
        }
        if head.is(mark::FUTURE) {
            let is_gone = |timestamp| slots.contains(&layout.raw.slot(timestamp));
            dropped += self.future.discard_some(at, is_gone);
            if !self.future.contains(at) {
                self.heads[at].clear(mark::FUTURE);
            }
        }
        let is_left = |point: &mut LatePoint| {
            !whole_slots(layout, usize::from(point.stage), slots).contains(&point.slot)
        };
        dropped += self.late.retain(at, is_left);
        self.ledger.held -= dropped;
        self.ledger.rejected[Reject::Deleted as usize] += dropped;
        dropped
    }

    /// Writes the pending late points to the journal again. Their new records come after those that the
    /// metric's next state row covers. So that row can cover the records of dropped points, and no replay
    /// brings these points back.
    fn journal_late_again(&mut self, at: u32, layout: &MetricLayout, writer: &mut JournalWriter) {
        let number = self.heads[at].number;
        let sequence = &mut self.sequence;
        self.late.retain(at, |point| {
            let stage = usize::from(point.stage);
            let timestamp = point.slot.saturating_mul(layout.stage(stage).resolution);
            *sequence = writer.point(number | u32::from(point.stage) << NUMBER_BITS, timestamp, point.value);
            point.sequence = *sequence;
            true
        });
    }
}
