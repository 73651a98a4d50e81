//! Jobs that shards give to flushers, and their results.

use std::sync::Arc;

use plumbago_model::{MetricId, Window};
use plumbago_store::FlushBatch;

use crate::shard::downsample::MetricLayout;
use crate::shard::head::Pairs;

/// A job for a flusher. Jobs of one queue are done in order.
#[derive(Debug)]
pub(crate) enum Job {
    /// Finished rows and state rows.
    Flush(FlushJob),
    /// Late points.
    Late(LateJob),
}

impl Job {
    /// True when the job reads from the store. It then has to wait while the store cannot be read.
    pub(crate) fn reads(&self) -> bool {
        match self {
            Self::Flush(job) => !job.closes.is_empty(),
            Self::Late(_) => true,
        }
    }
}

/// Flushes of several metrics, in two jobs: one that reads from the store and one that does not. So a store
/// that cannot be read delays only the first.
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
    /// Windows whose rows are not in the batch yet. Those of a metric follow each other, finer stages first.
    pub(crate) closes: Vec<Close>,
}

/// A metric in a [`FlushJob`].
#[derive(Debug)]
pub(crate) struct FlushItem {
    /// The number of its head.
    pub(crate) at: u32,
    /// Slots before this one are in the batch.
    pub(crate) until: u32,
    /// The open windows after the commit.
    pub(crate) open: Vec<Window>,
    /// Held slots in the batch.
    pub(crate) stored: u32,
    /// The current journal segment when the batch was built: later points are in it or in later ones.
    pub(crate) segment: u32,
}

/// A window to compute from all its slots at once. Slots that the head does not hold are read from the store.
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
    /// Its journal sequence.
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
    /// Points older than stage 0 replace whole windows. This is the raw slot at which the last of these windows ends; 0
    /// if there are none.
    pub(crate) aged_until: u32,
    /// In order of arrival.
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
    /// Points of the metric in the job.
    pub(crate) points: u32,
    /// Points that filled an unknown slot; the others replaced one.
    pub(crate) stored: u32,
    /// For each coarse stage, how its open window changes.
    pub(crate) open: Vec<Option<OpenPart>>,
}

/// How late points change an open window.
#[derive(Debug, Clone)]
pub(crate) enum OpenPart {
    /// It was folded again from the slots of this stage, with this result.
    Folded(usize, Window),
    /// Other writers have parts of it. These values are added to ours, each with the value that it replaces.
    Changed(Vec<(f64, Option<f64>)>),
}
