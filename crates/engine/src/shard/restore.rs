//! The start of a shard: fills heads from state rows, then from newer journal records.

use std::sync::Arc;

use plumbago_journal::Position;

use super::future::FuturePoint;
use super::{KIND_FUTURE, KIND_LATE, KIND_RELEASED, KIND_RELEASED_LATE, NUMBER_BITS, Shard, table_hash};
use crate::router::NameHash;
use crate::shard::head_state::mark;
use crate::shard::state_row::State;

/// A journal record of a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replayed {
    pub(crate) sequence: u64,
    /// The metric's number and the record's kind.
    pub(crate) metric: u32,
    pub(crate) timestamp: u32,
    pub(crate) value: f64,
}

impl Replayed {
    /// The metric's number.
    pub(crate) fn number(&self) -> u32 {
        self.metric & ((1 << NUMBER_BITS) - 1)
    }
}

impl Shard {
    /// Loads a head into the cache.
    pub(crate) fn warm_head(&self, at: u32) {
        std::hint::black_box(self.heads[at].ends());
    }

    /// Loads the open windows of a head into the cache.
    pub(crate) fn warm_windows(&self, at: u32) {
        let windows = self.heads[at].windows;
        if (windows as usize) < self.windows.len() {
            std::hint::black_box(self.windows[windows].count);
        }
    }

    /// Loads the table entry that a new name will take into the cache.
    pub(crate) fn warm_entry(&self, hash: &NameHash) {
        std::hint::black_box(self.table.iter_hash(table_hash(hash)).next());
    }

    /// Fills a head from its state row.
    pub(crate) fn restore(&mut self, at: u32, state: &State<'_>) {
        let layout = Arc::clone(&self.layouts[usize::from(self.heads[at].config)]);
        let head = &mut self.heads[at];
        head.number = state.number;
        self.sequence = self.sequence.max(state.sequence);
        if state.resolution != layout.raw.resolution {
            // The resolution of the metric was changed, so the old slots cannot be used.
            return;
        }
        if state.newest > 0 {
            // The head begins where the row says, not in the middle of a stored block.
            head.clear(mark::MERGE);
            head.set(mark::PLACED);
        }
        (head.base, head.newest) = (state.base, state.newest.max(state.base));
        if self.limits.at_intervals {
            self.unwritten_from[at] = state.base;
        }
        head.adopt(&mut self.pool, &state.chain, state.octet);
        let coarse = &layout.coarse_resolutions;
        for (k, resolution) in coarse.iter().enumerate() {
            if let Some(window) = state.open_of(k, *resolution) {
                self.windows[head.windows + k as u32] = window;
            }
        }
        if !state.resolutions.is_empty() && !state.resolutions.starts_with(coarse) {
            self.late.changed.insert(at);
        }
        for (timestamp, value) in &state.future {
            let (timestamp, value, sequence) = (*timestamp, *value, state.sequence);
            self.keep_future(at, FuturePoint { timestamp, value, sequence });
        }
        self.ledger.held += u64::from(state.held);
        self.ledger.recovered += u64::from(state.held) + state.future.len() as u64;
        self.check_due(at);
    }

    /// Marks a metric whose state row cannot be decoded. Its open windows were in that row only, so its first
    /// point is treated as late. In this way they are folded again from the slots in the store.
    pub(crate) fn lose_state(&mut self, at: u32) {
        self.heads[at].set(mark::REFOLD);
    }

    /// Handles the removal of a metric in the journal. Points from before the removal were stored or deleted
    /// at that time, so they are dropped here. The head stays if the metric is still in the metadata store,
    /// because then it was created again or the deletion was not completed.
    pub(crate) fn forgotten(&mut self, at: u32) {
        self.discard(at);
        let head = &mut self.heads[at];
        head.number = 0;
        if head.state.is_created() {
            // Windows that were open before the removal are not continued.
            head.clear(mark::PLACED);
            head.set(mark::MERGE);
            self.clear_windows(at);
            if self.limits.at_intervals {
                self.unwritten_from[at] = 0;
            }
        }
    }

    /// Vacates the head of a metric that is only in the journal, if its removal is in the journal too.
    /// Returns whether the head was vacated.
    pub(crate) fn is_gone(&mut self, at: u32) -> bool {
        let head = &self.heads[at];
        let gone = head.number == 0 && !head.state.is_created() && head.holds_nothing();
        if gone {
            self.vacate(at);
        }
        gone
    }

    /// Applies a journal record again. The record's kind says where the point went when it was accepted, so the clock
    /// does not matter here.
    pub(crate) fn replay(&mut self, at: u32, record: Replayed, now: i64, segment: u32) {
        // State rows of other metrics may have set a later sequence than that of this record.
        let known = std::mem::replace(&mut self.sequence, record.sequence);
        self.segment = segment;
        self.check_late_room(Position::default);
        self.put_again(at, record, now, segment);
        if self.late.waiting.is_on() {
            self.late.waiting.note_number(record.number(), at);
        }
        self.sequence = known.max(record.sequence);
    }

    fn put_again(&mut self, at: u32, record: Replayed, now: i64, segment: u32) {
        self.ledger.recovered += 1;
        let kind = record.metric >> NUMBER_BITS;
        let head = &mut self.heads[at];
        if head.segment == 0 {
            head.segment = segment;
        }
        let is_released = matches!(kind, KIND_RELEASED | KIND_RELEASED_LATE);
        if is_released && self.replay_release(at, record.timestamp) {
            // The point was counted as recovered when it was first kept.
            self.ledger.recovered -= 1;
        }
        match kind {
            0 | KIND_RELEASED | KIND_LATE | KIND_RELEASED_LATE => {
                let slot = self.layouts[usize::from(self.heads[at].config)].raw.slot(record.timestamp);
                self.put(at, slot, record.value, now);
            }
            KIND_FUTURE => {
                let Replayed { timestamp, value, sequence, .. } = record;
                self.keep_future(at, FuturePoint { timestamp, value, sequence });
            }
            stage => self.put_aged_again(at, stage as usize, &record, now, segment),
        }
    }

    /// Applies again a point that was older than the raw stage when it was accepted.
    fn put_aged_again(&mut self, at: u32, stage: usize, record: &Replayed, now: i64, segment: u32) {
        match self.stage_again(at, stage, record.timestamp, now) {
            Some(0) => {
                let slot = self.layouts[usize::from(self.heads[at].config)].raw.slot(record.timestamp);
                self.put(at, slot, record.value, now);
            }
            Some(stage) => self.put_aged(at, stage, record.timestamp, record.value, now, segment),
            // The point has expired.
            None => self.ledger.replaced += 1,
        }
    }

    /// The stage of a point that was older than the raw stage: the stage in its record or, if the settings have changed
    /// since then, the stage that covers its age.
    pub(super) fn stage_again(&self, at: u32, stage: usize, timestamp: u32, now: i64) -> Option<usize> {
        let layout = &self.layouts[usize::from(self.heads[at].config)];
        if stage <= layout.coarse() && !self.late.changed.contains(&at) {
            return Some(stage);
        }
        layout.config.retention.stage_for_age(now - i64::from(timestamp))
    }
}
