//! Commits on the local disk: finished rows together with state rows, all or nothing.

use plumbago_model::MetricId;

use crate::{BlockLayout, Store, StoreError, WriteBatch};

/// The state of one metric at a flush: its open windows, and the last journal record whose points are
/// included. The engine reads it at the next start; the store does not interpret it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRow {
    /// The id of the metric.
    pub id: MetricId,
    /// The state as encoded by the engine. Empty bytes delete the row.
    pub bytes: Vec<u8>,
}

/// The rows that one flush commits.
#[derive(Debug, Default, Clone)]
pub struct FlushBatch {
    /// The slots and windows that are complete.
    pub rows: WriteBatch,
    /// The state rows of the same metrics.
    pub states: Vec<StateRow>,
}

/// Commits flushes atomically on the local disk: the embedded store, or the spool in front of a remote store.
/// The methods block, so only the engine's flusher threads call them.
pub trait FlushStore: Store {
    /// The length of raw blocks.
    fn layout(&self) -> BlockLayout;

    /// Commits a batch, all or nothing. A committed batch survives `kill -9`, but a power cut only after
    /// `FlushStore::sync`.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; the batch may nevertheless be committed.
    fn commit(&self, batch: &FlushBatch) -> Result<(), StoreError>;

    /// Makes all previous commits survive a power cut.
    ///
    /// # Errors
    /// If the disk fails to sync. Commits since the last successful sync may then be lost in a power cut.
    fn sync(&self) -> Result<(), StoreError>;

    /// Calls `visit` for every state row, in id order. The engine calls it once, at the start.
    ///
    /// # Errors
    /// If the rows cannot be read; `visit` may already have been called for some of them.
    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError>;

    /// Ranges of ids, including both ends, whose state rows the last [`FlushStore::scan_states`] could not read.
    fn damaged_states(&self) -> Vec<(MetricId, MetricId)> {
        Vec::new()
    }

    /// Reports the consequences of damaged state rows: a text for operators, and the number of lost points as
    /// far as it is known.
    fn report_damaged_states(&self, _text: &str, _lost: u64) {}

    /// Stores the numbers that metrics have in the journal, `count` of them. This is a second copy: the state rows have
    /// them too.
    fn note_numbers(&self, _count: usize, _numbers: &mut dyn Iterator<Item = (u32, MetricId)>) {}

    /// Visits the numbers stored by the last [`FlushStore::note_numbers`], or those of them that can be read.
    fn noted_numbers(&self, _visit: &mut dyn FnMut(u32, MetricId)) {}

    /// Records at a clean stop how many points the state rows contain.
    ///
    /// # Errors
    /// If the record cannot be written.
    fn note_held(&self, _points: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Records that the engine's checkpoint with this stamp contains everything that is in the names and
    /// state rows. Any later change of names, state rows or points removes the record, even if another
    /// process or an older version makes the change. The record replaces that of [`FlushStore::note_held`].
    ///
    /// # Errors
    /// If the record cannot be written.
    fn note_checkpoint(&self, _stamp: [u8; 16]) -> Result<(), StoreError> {
        Ok(())
    }

    /// The stamp of the checkpoint that is still valid, if there is one. [`FlushStore::take_held`] removes
    /// it.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn checkpoint(&self) -> Result<Option<[u8; 16]>, StoreError> {
        Ok(None)
    }

    /// Returns the number recorded at the last clean stop, and removes the record. `None` after a crash.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn take_held(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }
}
