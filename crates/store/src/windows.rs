//! The rows of windows as each writer has stored them, for repairs.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;

use crate::{SlotRange, StoreError, WriteBatch, WriterIdentity, WriterRow};

/// A row of a window, with the number of its slot.
pub type SlotRow = (u32, WriterRow);

/// The windows of a store that several daemons write to.
#[boxed_futures]
pub trait SharedWindows: Send + Sync + Debug {
    /// The identity under which this daemon writes.
    fn identity(&self) -> WriterIdentity;

    /// Reads the rows of all writers in these ranges of coarse stages, ordered by slot; one list for each
    /// range. Sees every row that was confirmed to its writer.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn read_rows(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<SlotRow>>, StoreError>;

    /// Replaces windows of another writer. The given windows replace a pending row of that writer, but a row
    /// that the writer computes later replaces them.
    ///
    /// # Errors
    /// If some rows were not acknowledged. The caller may retry.
    async fn write_as(&self, writer: WriterIdentity, batch: &WriteBatch) -> Result<(), StoreError>;
}
