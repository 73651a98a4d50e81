//! The heads of metrics that are copied, and the deletion of metrics that are moved
//! (`docs/decisions/copy-and-move.md`).
//!
//! As during an import, the metric is blocked: none of its points go to the store until
//! [`Shard::end_import`] or until its deletion begins. New points still go into its head.

use std::collections::HashSet;

use plumbago_journal::JournalWriter;

use super::Shard;
use crate::router::NameHash;
use crate::shard::head::Pairs;
use crate::shard::head_state::{Late, mark};
use crate::shard::import::{Begun, ImportHead};

/// A blocked metric that was copied, and is about to be deleted.
#[derive(Debug, Clone)]
pub(crate) struct BeginMove {
    pub(crate) hash: NameHash,
    pub(crate) at: u32,
    /// The points in memory that were copied: timestamp and value.
    pub(crate) known: Vec<(u32, f64)>,
}

/// The answer to a [`BeginMove`].
#[derive(Debug, Default)]
pub(crate) enum Moved {
    /// The deletion cannot begin now. The metric stays blocked.
    #[default]
    Busy,
    /// The metric got these points after the copy, in the order of time or of arrival. It stays blocked.
    Grown(Vec<(u32, f64)>),
    /// The deletion has begun.
    Begun,
}

impl Shard {
    /// Blocks a metric and returns the content of its head. If late points of the metric are on their way to
    /// the store, it is busy.
    pub(super) fn begin_copy(&mut self, hash: &NameHash) -> Begun {
        let at = match self.at_rest(hash) {
            Ok(at) if self.heads[at].state.late() == Late::None => at,
            Ok(_) => return Begun::Busy,
            Err(begun) => return begun,
        };
        self.block_flushes(at);
        let head = &self.heads[at];
        let (base, is_refolded) = (if head.is(mark::PLACED) { head.base } else { 0 }, head.is(mark::REFOLD));
        let head = self.import_head(at, base, base);
        Begun::Ready(Box::new(ImportHead { is_refolded, ..head }))
    }

    /// Begins the deletion of a metric if all of its points were copied. The check and the deletion are one step, so
    /// that no point can arrive between them.
    pub(crate) fn begin_move(&mut self, moved: &BeginMove, writer: &mut JournalWriter) -> Moved {
        let at = moved.at;
        if self.find(&moved.hash) != Some(at) || self.late.waiting.contains(at) {
            return Moved::Busy;
        }
        let known: HashSet<(u32, u64)> =
            moved.known.iter().map(|(time, value)| (*time, value.to_bits())).collect();
        let mut grown = self.points_in_memory(at);
        grown.retain(|(time, value)| !known.contains(&(*time, value.to_bits())));
        if !grown.is_empty() {
            return Moved::Grown(grown);
        }
        self.late.end_import(at);
        self.end_late(at);
        if self.begin_deletions(&[moved.hash], writer) == [true] {
            return Moved::Begun;
        }
        self.block_flushes(at);
        Moved::Busy
    }

    /// All points of a metric that are only in memory: held slots, late points and points ahead of now.
    fn points_in_memory(&mut self, at: u32) -> Vec<(u32, f64)> {
        let mut pairs = Pairs::new();
        self.heads[at].pairs(&self.pool, &mut self.scratch, &mut pairs);
        let layout = &self.layouts[usize::from(self.heads[at].config)];
        let raw = layout.raw.resolution;
        let mut points: Vec<(u32, f64)> =
            pairs.into_iter().map(|(slot, value)| (slot.saturating_mul(raw), value)).collect();
        self.late.retain(at, |point| {
            let resolution = layout.stage(usize::from(point.stage)).resolution;
            points.push((point.slot.saturating_mul(resolution), point.value));
            true
        });
        points.extend(self.future_of(at, u64::MAX));
        points
    }
}
