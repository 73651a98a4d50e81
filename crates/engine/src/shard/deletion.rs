//! Deletes whole metrics, with the points in their heads (`docs/decisions/delete.md`).
//!
//! A deletion begins here: the head is dropped with everything in it, and the removal is written to the
//! journal. After that, the caller deletes the metric from the stores and ends the deletion. If points of the
//! same name arrive meanwhile, the new metric has a head at once, but its creation waits for the end of the
//! deletion. Until then none of its points go to the store, so the caller deletes only points of the old
//! metric there.

use std::collections::HashMap;

use plumbago_journal::JournalWriter;

use super::Shard;
use crate::router::NameHash;
use crate::shard::creation::{CreateGate, NewMetric};
use crate::shard::head::Pairs;
use crate::shard::head_state::{LateEvent, mark};
use crate::stats::Reject;

/// The metrics that are being deleted, each with the creation that waits for the end of the deletion.
#[derive(Debug, Default)]
pub(crate) struct Deletions(HashMap<NameHash, Option<NewMetric>>);

impl Deletions {
    /// Whether nothing is being deleted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the metric is being deleted.
    pub(crate) fn contains(&self, hash: &NameHash) -> bool {
        !self.0.is_empty() && self.0.contains_key(hash)
    }

    /// Keeps a creation waiting if the metric is being deleted; otherwise returns it.
    pub(super) fn hold(&mut self, hash: &NameHash, metric: NewMetric) -> Option<NewMetric> {
        match self.0.get_mut(hash) {
            Some(waiting) => {
                *waiting = Some(metric);
                None
            }
            None => Some(metric),
        }
    }
}

impl Shard {
    /// Begins the deletion of metrics. Returns for each metric whether the deletion has begun. A deletion
    /// cannot begin while the metric is being created or deleted, or while some of its points are on their
    /// way to the store; the caller then asks again.
    pub(crate) fn begin_deletions(&mut self, hashes: &[NameHash], writer: &mut JournalWriter) -> Vec<bool> {
        let begun = hashes.iter().map(|hash| self.begin_deletion(hash, writer)).collect();
        // A head that was vacated has no marks.
        let heads = &self.heads;
        self.due.retain(|at| heads[*at].is(mark::DUE));
        self.flushing.retain(|at| heads[*at].is(mark::DUE));
        begun
    }

    fn begin_deletion(&mut self, hash: &NameHash, writer: &mut JournalWriter) -> bool {
        if self.deletions.contains(hash) {
            return false;
        }
        if let Some(at) = self.find(hash) {
            let head = &self.heads[at];
            let is_busy = !head.state.is_created()
                || head.state.is_flushing()
                || self.late.is_in_flight(at)
                || self.late.waiting.contains(at);
            if is_busy {
                return false;
            }
            if head.number != 0 {
                self.sequence = writer.removal(head.number);
            }
            self.discard(at);
            self.vacate(at);
        }
        self.deletions.0.insert(*hash, None);
        true
    }

    /// Ends deletions. Metrics of the same names that got points meanwhile are created now.
    pub(crate) fn end_deletions(&mut self, hashes: &[NameHash], gate: &mut dyn CreateGate) {
        for hash in hashes {
            if let Some(Some(metric)) = self.deletions.0.remove(hash) {
                gate.submit(metric);
            }
        }
    }

    /// Drops every point that a head holds, and counts these points as rejected.
    pub(crate) fn discard(&mut self, at: u32) {
        let mut pairs = Pairs::new();
        let head = &mut self.heads[at];
        head.pairs(&self.pool, &mut self.scratch, &mut pairs);
        head.refill(&mut self.pool, &mut self.scratch, &[]);
        let points = pairs.len() as u64 + self.late.discard(at) + self.future.discard(at);
        head.state.on_late(LateEvent::Store);
        head.clear(mark::FUTURE | mark::REWRITE);
        head.segment = 0;
        self.ledger.held -= points;
        self.ledger.rejected[Reject::Deleted as usize] += points;
    }
}
