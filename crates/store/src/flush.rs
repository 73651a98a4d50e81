//! The local commit: finished rows and the state rows that explain them, all or nothing.

use std::fmt::Debug;

use plumbago_model::MetricId;

use crate::{BlockLayout, StoreError, WriteBatch};

/// The engine's note on one metric, opaque to the store: what its head held at the flush.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRow {
    /// The metric.
    pub id: MetricId,
    /// The engine's bytes; empty deletes the row.
    pub bytes: Vec<u8>,
}

/// What one flush commits.
#[derive(Debug, Default, Clone)]
pub struct FlushBatch {
    /// Finished rows.
    pub rows: WriteBatch,
    /// State rows of the same metrics.
    pub states: Vec<StateRow>,
}

/// Takes flushes atomically on the local disk: the embedded store itself, or the spool in front of
/// a remote one. Blocking: called from the engine's flusher threads only.
pub trait FlushStore: Send + Sync + Debug {
    /// How raw blocks are cut.
    fn layout(&self) -> BlockLayout;

    /// True for a store that takes points as they come, a few from each metric at every
    /// `engine.flush_interval`, and not by whole blocks. Windows follow when they are closed.
    fn takes_intervals(&self) -> bool {
        false
    }

    /// Commits all or nothing. After it returned, `kill -9` does not undo it.
    fn commit(&self, batch: &FlushBatch) -> Result<(), StoreError>;

    /// Makes every commit so far survive power loss.
    fn sync(&self) -> Result<(), StoreError>;

    /// Visits all state rows, in id order. Called once, at start.
    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError>;
}
