//! Jobs that shards give to flushers, and their results.

use std::sync::Arc;

use plumbago_model::{MetricId, Window};
use plumbago_store::FlushBatch;

use crate::shard::downsample::MetricLayout;
use crate::shard::head::Pairs;

/// A job for a flusher. The jobs of one queue are done in order.
#[derive(Debug)]
pub(crate) enum Job {
    /// Rows and state rows to commit.
    Flush(FlushJob),
    /// Late points.
    Late(LateJob),
}

impl Job {
    /// Whether the job reads from the store. Such a job has to wait while the store cannot be read.
    pub(crate) fn reads(&self) -> bool {
        match self {
            Self::Flush(job) => !job.closes.is_empty(),
            Self::Late(_) => true,
        }
    }
}

/// Flushes of several metrics, in two jobs: one that reads from the store and one that does not. If the store
/// cannot be read, only the first job is delayed.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    pub(crate) plain: FlushJob,
    pub(crate) reading: FlushJob,
}

impl Flushes {
    /// The number of metrics.
    pub(crate) fn len(&self) -> usize {
        self.plain.items.len() + self.reading.items.len()
    }

    /// The jobs that are not empty.
    pub(crate) fn into_jobs(self) -> impl Iterator<Item = Job> {
        [self.plain, self.reading].into_iter().filter(|job| !job.items.is_empty()).map(Job::Flush)
    }
}

/// Rows and state rows that are committed as one batch.
#[derive(Debug, Default)]
pub(crate) struct FlushJob {
    pub(crate) batch: FlushBatch,
    pub(crate) items: Vec<FlushItem>,
    /// Windows whose rows are not in the batch yet. The windows of a metric are adjacent, finer stages first.
    pub(crate) closes: Vec<Close>,
}

/// A metric in a [`FlushJob`].
#[derive(Debug)]
pub(crate) struct FlushItem {
    /// The number of its head.
    pub(crate) at: u32,
    /// The slots before this one are in the batch or in the store.
    pub(crate) until: u32,
    /// The open windows after the commit.
    pub(crate) open: Vec<Window>,
    /// The number of held slots in the batch.
    pub(crate) stored: u32,
    /// The current journal segment when the batch was built: later points are in it or in later ones.
    pub(crate) segment: u32,
}

/// A window to compute from all its slots at once. Slots that are not in the head are read from the store.
#[derive(Debug)]
pub(crate) struct Close {
    pub(crate) id: MetricId,
    pub(crate) layout: Arc<MetricLayout>,
    pub(crate) stage: usize,
    pub(crate) window: u32,
    /// Held slots of the window.
    pub(crate) pairs: Pairs,
}

/// Late points of several metrics.
#[derive(Debug, Default)]
pub(crate) struct LateJob {
    pub(crate) metrics: Vec<LateMetric>,
}

/// A late point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LatePoint {
    /// The point's journal sequence.
    pub(crate) sequence: u64,
    pub(crate) value: f64,
    /// The slot of the point in its stage.
    pub(crate) slot: u32,
    pub(crate) stage: u8,
}

/// Late points of one metric.
#[derive(Debug)]
pub(crate) struct LateMetric {
    pub(crate) at: u32,
    pub(crate) id: MetricId,
    pub(crate) layout: Arc<MetricLayout>,
    /// The base of the head: windows that end there or before are closed.
    pub(crate) base: u32,
    /// When the first of the points was accepted, in seconds since the epoch.
    pub(crate) now: i64,
    /// The journal segment of the first of the points, or an earlier segment.
    pub(crate) segment: u32,
    /// The end of the last window that is replaced by a point older than stage 0, as a raw slot; 0 if there
    /// is none.
    pub(crate) aged_until: u32,
    /// The points, in order of arrival.
    pub(crate) points: Vec<LatePoint>,
}

impl LateMetric {
    /// The same metric without its points.
    pub(crate) fn without_points(&self) -> Self {
        Self { layout: Arc::clone(&self.layout), points: Vec::new(), ..*self }
    }

    /// The journal sequence of the first of the points.
    pub(crate) fn first_sequence(&self) -> u64 {
        self.points.first().map_or(u64::MAX, |point| point.sequence)
    }
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Done {
    /// The batch is committed.
    Flush(Vec<FlushItem>),
    /// The late points are committed.
    Late(Vec<LateDone>),
}

/// The changes that storing late points made to one metric.
#[derive(Debug)]
pub(crate) struct LateDone {
    pub(crate) at: u32,
    /// The number of the metric's points in the job.
    pub(crate) points: u32,
    /// The number of points that filled an unknown slot; the others replaced a value.
    pub(crate) stored: u32,
    /// The change of the open window of each coarse stage.
    pub(crate) open: Vec<Option<OpenPart>>,
}

/// How late points change an open window.
#[derive(Debug, Clone)]
pub(crate) enum OpenPart {
    /// The window was folded again from the slots of this stage, with this result.
    Folded(usize, Window),
    /// Other writers have parts of the window. These values are added to this writer's part, each with the
    /// value that it replaces.
    Changed(Vec<(f64, Option<f64>)>),
}
