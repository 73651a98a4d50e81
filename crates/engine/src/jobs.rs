//! What owners hand to the flusher, and what comes back.

use std::sync::Arc;

use plumbago_model::{MetricId, Window};
use plumbago_store::FlushBatch;

use crate::downsample::Plan;
use crate::head::Pairs;

/// Work for the flusher, done in order.
#[derive(Debug)]
pub(crate) enum Job {
    /// Finished rows and state rows.
    Flush(FlushJob),
    /// Points for slots that are in the store.
    Late(LateJob),
}

impl Job {
    /// True when it needs slots from the store, which may not be there to be asked.
    pub(crate) fn reads(&self) -> bool {
        match self {
            Self::Flush(job) => !job.closes.is_empty(),
            Self::Late(_) => true,
        }
    }
}

/// Flushes of several metrics. Those whose method needs slots from the store go apart, so that a store
/// that cannot be read holds up no others.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    pub(crate) plain: FlushJob,
    pub(crate) reading: FlushJob,
}

impl Flushes {
    /// Metrics in them.
    pub(crate) fn len(&self) -> usize {
        self.plain.items.len() + self.reading.items.len()
    }

    /// Those that have something to do.
    pub(crate) fn into_jobs(self) -> impl Iterator<Item = Job> {
        [self.plain, self.reading].into_iter().filter(|job| !job.items.is_empty()).map(Job::Flush)
    }
}

/// One atomic local batch.
#[derive(Debug, Default)]
pub(crate) struct FlushJob {
    pub(crate) batch: FlushBatch,
    pub(crate) items: Vec<FlushItem>,
    pub(crate) closes: Vec<Close>,
}

/// A metric in a [`FlushJob`].
#[derive(Debug)]
pub(crate) struct FlushItem {
    /// The metric's place in its shard.
    pub(crate) at: u32,
    /// Slots below are in the batch.
    pub(crate) until: u32,
    /// The open windows once they are.
    pub(crate) open: Vec<Window>,
    /// Held slots in the batch.
    pub(crate) stored: u32,
    /// The journal segment that records had when the batch was built.
    pub(crate) segment: u32,
}

/// A window whose method needs all its slots at once; the store knows those that the head does not hold.
#[derive(Debug)]
pub(crate) struct Close {
    pub(crate) id: MetricId,
    pub(crate) plan: Arc<Plan>,
    pub(crate) stage: usize,
    pub(crate) window: u32,
    /// Held slots of the window.
    pub(crate) pairs: Pairs,
}

/// Points that are late for their heads.
#[derive(Debug, Default)]
pub(crate) struct LateJob {
    pub(crate) metrics: Vec<LateMetric>,
}

/// All late points of one metric in a [`LateJob`].
#[derive(Debug)]
pub(crate) struct LateMetric {
    pub(crate) at: u32,
    pub(crate) id: MetricId,
    pub(crate) plan: Arc<Plan>,
    /// The head's base: windows that end there or before are closed.
    pub(crate) base: u32,
    /// Seconds since the epoch when the points were judged.
    pub(crate) now: i64,
    /// Journal sequence of the first of the points.
    pub(crate) first_sequence: u64,
    /// Journal segment that it is in, or an earlier one.
    pub(crate) segment: u32,
    /// Raw slot at which the last window ends that a point older than stage 0 replaces; 0 for none.
    pub(crate) aged_until: u32,
    /// Stage, slot of the stage, value; in the order of arrival.
    pub(crate) points: Vec<(u8, u32, f64)>,
}

/// The flusher's answer.
#[derive(Debug)]
pub(crate) enum Done {
    /// The batch is committed.
    Flush(Vec<FlushItem>),
    /// The late points are committed.
    Late(Vec<LateDone>),
}

/// What late points did to one metric.
#[derive(Debug)]
pub(crate) struct LateDone {
    pub(crate) at: u32,
    /// Points of the job.
    pub(crate) points: u32,
    /// How many of them filled an unknown slot; the others replaced one.
    pub(crate) stored: u32,
    /// Per coarse stage, when its open window was touched.
    pub(crate) open: Vec<Option<OpenPart>>,
}

/// What late points did to a window that is still open.
#[derive(Debug, Clone)]
pub(crate) enum OpenPart {
    /// It was folded anew: from the slots of which stage, and what they give.
    Folded(usize, Window),
    /// Other writers have a part of it, so only these values are ours: each with the one it replaced.
    Changed(Vec<(f64, Option<f64>)>),
}
