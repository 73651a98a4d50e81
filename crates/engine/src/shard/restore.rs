//! Start: heads from state rows, then journal records that are newer.

use super::{KIND_RELEASED, KIND_WAITING, NUMBER_BITS, Shard, table_hash};
use crate::head::{Head, flag};
use crate::router::NameHash;
use crate::state_row::State;

/// A journal record of a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replayed {
    pub(crate) sequence: u64,
    /// Number and kind.
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

fn holds_nothing(head: &Head) -> bool {
    head.is_empty() && !head.is(flag::STALE | flag::WAITS)
}

impl Shard {
    /// Has a head in the cache before it is filled.
    pub(crate) fn warm_head(&self, at: u32) {
        std::hint::black_box(self.heads[at].ends());
    }

    /// The same for its open windows, whose place the head tells.
    pub(crate) fn warm_windows(&self, at: u32) {
        let windows = self.heads[at].windows;
        if (windows as usize) < self.windows.len() {
            std::hint::black_box(self.windows[windows].count);
        }
    }

    /// The same for the place in the table that a new name will take.
    pub(crate) fn warm_entry(&self, hash: &NameHash) {
        std::hint::black_box(self.table.iter_hash(table_hash(hash)).next());
    }

    /// Fills a head from its state row.
    pub(crate) fn restore(&mut self, at: u32, state: &State<'_>) {
        let plan = std::sync::Arc::clone(&self.plans[usize::from(self.heads[at].config)]);
        let head = &mut self.heads[at];
        head.number = state.number;
        self.sequence = self.sequence.max(state.sequence);
        if state.resolution != plan.raw.resolution {
            // The metric is kept differently now; its old slots do not fit the new grid.
            return;
        }
        head.clear(flag::MERGE);
        if state.newest > 0 {
            head.clear(flag::NEW);
        }
        (head.base, head.newest) = (state.base, state.newest.max(state.base));
        if self.limits.at_intervals {
            self.unwritten_from[at] = state.base;
        }
        head.adopt(&mut self.pool, &state.chain, state.octet);
        for (k, window) in state.open.iter().take(plan.coarse()).enumerate() {
            self.windows[head.windows + k as u32] = *window;
        }
        for (timestamp, value) in &state.waiting {
            self.wait(at, *timestamp, *value, state.sequence);
        }
        self.ledger.held += u64::from(state.held);
        self.ledger.recovered += u64::from(state.held) + state.waiting.len() as u64;
        self.look_whether_due(at);
    }

    /// A metric that was forgotten after what is known of it. It stays when it was made again since, when its
    /// deletion did not come through, or when the store has lost the state row that knew of its points.
    pub(crate) fn forgotten(&mut self, at: u32) {
        let head = &mut self.heads[at];
        head.number = 0;
        if head.is(flag::CREATED) && holds_nothing(head) {
            // Windows that were open then are not taken up again.
            head.set(flag::NEW | flag::MERGE);
            head.segment = 0;
            self.clear_windows(at);
        }
    }

    /// True when nothing is left of a metric that only the journal had, and that was forgotten.
    pub(crate) fn is_gone(&mut self, at: u32) -> bool {
        let head = &self.heads[at];
        let gone = head.number == 0 && !head.is(flag::CREATED) && holds_nothing(head);
        if gone {
            self.vacate(at);
        }
        gone
    }

    /// Applies a record again. What it was judged to be stands: the clock is not asked.
    pub(crate) fn replay(&mut self, at: u32, record: Replayed, now: i64, segment: u32) {
        // State rows of other metrics may be further; this point is no newer than its record.
        let known = std::mem::replace(&mut self.sequence, record.sequence);
        self.segment = segment;
        self.put_again(at, record, now, segment);
        self.sequence = known.max(record.sequence);
    }

    fn put_again(&mut self, at: u32, record: Replayed, now: i64, segment: u32) {
        self.ledger.recovered += 1;
        let kind = record.metric >> NUMBER_BITS;
        let head = &mut self.heads[at];
        if head.segment == 0 {
            head.segment = segment;
        }
        if kind == KIND_RELEASED {
            let same = |w: &super::Waiting| w.at == at && w.timestamp == record.timestamp;
            if let Some(place) = self.waiting.iter().position(same) {
                self.waiting.remove(place);
                self.ledger.held -= 1;
                self.ledger.recovered -= 1;
            }
        }
        match kind {
            0 | KIND_RELEASED => {
                let slot = self.plans[usize::from(self.heads[at].config)].raw.slot(record.timestamp);
                self.put(at, slot, record.value, now);
            }
            KIND_WAITING => self.wait(at, record.timestamp, record.value, record.sequence),
            stage => self.put_aged(at, stage as usize, record.timestamp, record.value, now, segment),
        }
    }
}
