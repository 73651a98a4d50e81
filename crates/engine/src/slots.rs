//! Slots of a stage, as they are read from the store and written to it.

use std::ops::Range;

use plumbago_model::{MetricId, Window};
use plumbago_store::{Column, RowCount, Run, WriteBatch};

use crate::late::refold::window_at;
use crate::shard::downsample::MetricLayout;

/// Unknown slots in a row that a run may contain; with more, a new run begins.
const GAP: u32 = 256;

/// The stored slots of one stage, starting at a slot.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) from: u32,
    pub(crate) column: Column,
}

impl Stored {
    /// The range from the first to the last known slot; `None` if no slot is known.
    pub(crate) fn known(&self) -> Option<Range<u32>> {
        let values = &self.column.values;
        let first = values.iter().position(|value| !value.is_nan())?;
        let last = values.iter().rposition(|value| !value.is_nan())?;
        Some(self.from + first as u32..self.from + last as u32 + 1)
    }

    pub(crate) fn get(&self, slot: u32) -> Window {
        slot.checked_sub(self.from).map_or(Window::default(), |at| window_at(&self.column, at as usize))
    }
}

/// Adds known slots of a stage to a batch, in the order of time. [`Run::whole`] is set to `whole`.
pub(crate) fn push_runs(
    layout: &MetricLayout,
    id: MetricId,
    stage: usize,
    whole: bool,
    slots: &[(u32, Window)],
    rows: &mut WriteBatch,
) {
    for run in slots.chunk_by(|a, b| b.0 - a.0 <= GAP) {
        let first = run[0].0;
        let len = (run[run.len() - 1].0 - first + 1) as usize;
        let (mut values, mut counts) = (vec![f64::NAN; len], vec![RowCount::ZERO; len]);
        for (slot, window) in run {
            values[(slot - first) as usize] = window.value;
            counts[(slot - first) as usize] = window.count.into();
        }
        let run = Run { whole, ..layout.run(id, stage, first) };
        rows.push(run, &values, (stage > 0).then_some(&counts));
    }
}
