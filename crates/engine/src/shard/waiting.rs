//! Late points that wait in the journal because there is no room for them in memory. Memory holds only a few
//! numbers for each metric that has such points, and a position in the journal. When there is room, the
//! journal is read again from that position.
//!
//! While any late point waits, all later ones wait too, so that the points of a metric keep their order.

use std::collections::HashMap;

use plumbago_journal::Position;

use super::restore::Replayed;
use super::{KIND_FUTURE, KIND_LATE, KIND_RELEASED, KIND_RELEASED_LATE, NUMBER_BITS, Shard};
use crate::shard::jobs::LatePoint;
use crate::stats::Reject;

/// The late points of a shard that wait in the journal.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    by_head: HashMap<u32, WaitingHead>,
    /// Heads by the metric number in the journal.
    heads: HashMap<u32, u32>,
    /// Whether late points have to wait.
    is_on: bool,
    /// The number of points.
    points: u64,
    /// The position where reading continues. No waiting point is before it.
    position: Position,
    /// The last journal sequence written by earlier processes. Records up to it do not show whether their
    /// point waits.
    replayed_until: u64,
}

/// The waiting points of one head.
#[derive(Debug)]
struct WaitingHead {
    number: u32,
    /// A lower bound of the journal sequences of the waiting points.
    first: u64,
    /// The journal segment of the first waiting point, or an earlier segment.
    segment: u32,
    /// The base of the head when the first waiting point arrived. During a replay it does not change.
    base: u32,
    points: u64,
}

impl Waiting {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether no point waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// The number of points.
    pub(crate) fn points(&self) -> u64 {
        self.points
    }

    /// Whether points of this head wait.
    pub(crate) fn contains(&self, at: u32) -> bool {
        self.by_head.contains_key(&at)
    }

    /// The journal sequence of the first waiting point of a head, or an earlier one.
    pub(crate) fn first_sequence(&self, at: u32) -> Option<u64> {
        self.by_head.get(&at).map(|head| head.first)
    }

    /// The first sequence of each head with waiting points.
    pub(crate) fn first_sequences(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_head.values().map(|head| head.first)
    }

    /// The journal segment of the first waiting point of a head, or an earlier one.
    pub(crate) fn segment(&self, at: u32) -> Option<u32> {
        self.by_head.get(&at).map(|head| head.segment)
    }

    /// The memory of the tables, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.by_head.capacity() * size_of::<(u32, WaitingHead)>()
            + self.heads.capacity() * size_of::<(u32, u32)>()
    }

    /// Adds a late point whose journal record has this sequence. It waits from now on.
    pub(super) fn add(&mut self, at: u32, number: u32, base: u32, sequence: u64, segment: u32) {
        let new = || WaitingHead { number, first: sequence, segment, base, points: 0 };
        let head = self.by_head.entry(at).or_insert_with(new);
        if head.points == 0 || head.number != number {
            self.heads.insert(number, at);
        }
        head.points += 1;
        self.points += 1;
    }

    /// Notes that the head has this number in the journal. During a replay the head may have had another
    /// number before.
    pub(super) fn note_number(&mut self, number: u32, at: u32) {
        if self.by_head.contains_key(&at) {
            self.heads.insert(number, at);
        }
    }

    /// The head that a record belongs to, if the record may be that of a waiting point.
    fn find(&self, record: &Replayed) -> Option<(u32, &WaitingHead)> {
        let at = *self.heads.get(&record.number())?;
        let head = self.by_head.get(&at)?;
        (record.sequence >= head.first).then_some((at, head))
    }

    /// Forgets the points of a head. Returns how many there were.
    pub(super) fn discard(&mut self, at: u32) -> u64 {
        let Some(head) = self.by_head.remove(&at) else { return 0 };
        self.heads.remove(&head.number);
        self.points -= head.points;
        head.points
    }

    /// Removes from the count a point that was read again.
    fn remove(&mut self, at: u32, sequence: u64) {
        let Some(head) = self.by_head.get_mut(&at) else { return };
        head.points -= 1;
        head.first = sequence + 1;
        self.points -= 1;
        if head.points == 0 {
            self.heads.remove(&head.number);
            self.by_head.remove(&at);
        }
    }
}

impl Shard {
    /// Decides whether late points have to wait from now on, or whether they no longer have to. `position` is
    /// not after the place of the next record in the journal.
    #[inline]
    pub(crate) fn check_late_room(&mut self, position: impl FnOnce() -> Position) {
        let is_full = self.late.points() >= self.limits.late_points;
        let waiting = &mut self.late.waiting;
        if waiting.is_on {
            waiting.is_on = is_full || waiting.points > 0;
        } else if is_full {
            (waiting.is_on, waiting.position) = (true, position());
        }
    }

    /// Notes the last journal sequence of earlier processes, after a replay.
    pub(crate) fn end_replay(&mut self, sequence: u64) {
        self.late.waiting.replayed_until = sequence;
    }

    /// Where the journal should be read again for waiting points; `None` if there are none, or if there is no
    /// room for them in memory.
    pub(crate) fn waits_from(&self) -> Option<Position> {
        let has_room = self.late.points() < self.limits.late_points.div_ceil(2);
        (has_room && !self.late.waiting.is_empty()).then_some(self.late.waiting.position)
    }

    /// Handles a record that was read again. Most of these records do not belong to waiting points.
    pub(crate) fn take_again(&mut self, record: &Replayed, now: i64) {
        let is_replayed = record.sequence <= self.late.waiting.replayed_until;
        let kind = record.metric >> NUMBER_BITS;
        if kind == KIND_FUTURE || !is_replayed && matches!(kind, 0 | KIND_RELEASED) {
            return;
        }
        let Some((at, head)) = self.late.waiting.find(record) else { return };
        let layout = &self.layouts[usize::from(self.heads[at].config)];
        let raw = layout.raw.slot(record.timestamp);
        let (stage, slot, waits) = match kind {
            0 | KIND_RELEASED | KIND_LATE | KIND_RELEASED_LATE => (0, raw, !is_replayed || raw < head.base),
            stage => match self.stage_again(at, stage as usize, record.timestamp, now) {
                Some(0) => (0, raw, raw < head.base),
                Some(stage) => (stage as u8, layout.stage(stage).slot(record.timestamp), true),
                // The replay has already counted the point as replaced.
                None => return,
            },
        };
        if waits {
            let segment = head.segment;
            self.late.waiting.remove(at, record.sequence);
            let point = LatePoint { sequence: record.sequence, value: record.value, slot, stage };
            self.push_pending(at, point, segment, now);
        }
    }

    /// Notes how far the journal was read. `is_all` says that the journal has no further record of this
    /// shard. Points that still wait then are lost, because the journal is damaged.
    pub(crate) fn end_reading(&mut self, next: Position, is_all: bool) {
        let waiting = &mut self.late.waiting;
        waiting.position = next;
        if !is_all || waiting.is_empty() {
            return;
        }
        let points = std::mem::take(&mut waiting.points);
        tracing::error!(
            points,
            metrics = waiting.by_head.len(),
            "late points that waited in the journal are lost: the journal is damaged"
        );
        waiting.heads.clear();
        let heads: Vec<u32> = waiting.by_head.drain().map(|(at, _)| at).collect();
        self.ledger.held -= points;
        self.ledger.rejected[Reject::JournalDamaged as usize] += points;
        heads.into_iter().for_each(|at| self.end_late(at));
    }
}
