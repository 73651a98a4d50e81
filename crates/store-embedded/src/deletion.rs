//! A deletion of points, which a merge that runs meanwhile has to repeat.

use std::ops::Range;

use plumbago_model::MetricId;

use crate::catalogue::StageKey;

/// Slots of one stage of a metric that are deleted.
#[derive(Debug, Clone)]
pub(crate) struct Deletion {
    pub(crate) id: MetricId,
    pub(crate) key: StageKey,
    /// `None` for all slots.
    pub(crate) slots: Option<Range<u32>>,
}
