//! Reads of whole series: the interface between the API and the engine's reader.

use std::fmt::Debug;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricConfig, Series};

use crate::StoreError;

/// A read of many metrics over one time range, by Graphite's rules: the range is `(from, until]`, and each
/// metric is answered from one stage, the finest whose retention covers `now - from`.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// Full metric names, without globs.
    pub names: Vec<Arc<str>>,
    /// Start of the range in seconds since the epoch, exclusive.
    pub from: i64,
    /// End of the range in seconds since the epoch, inclusive.
    pub until: i64,
    /// The time that counts as the current time for this request, in seconds since the epoch. It decides
    /// which stage answers.
    pub now: i64,
    /// Maximum number of slots in the answer, all series together. A read of more fails before it takes memory.
    pub slots_max: usize,
}

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The store could not be read.
    #[error("failed to read points")]
    Store(#[from] StoreError),
    /// The engine is shutting down and answers no more reads.
    #[error("the engine is stopping")]
    Stopping,
    /// The answer would have more slots than [`FetchRequest::slots_max`].
    #[error("the series have more than {0} points in this range")]
    TooManySlots(usize),
}

/// Where the slots of a series came from.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// Full name of the metric.
    pub name: Arc<str>,
    /// The retention, aggregation method and xFilesFactor.
    pub config: Arc<MetricConfig>,
    /// Number of the stage that answers, 0 for raw.
    pub stage: usize,
    /// Number of slots in the range.
    pub slots: usize,
    /// Number of slots with a value from the memory of this process.
    pub from_head: usize,
    /// Number of slots with a value from the spool: its row waits for a remote store, or was acknowledged there
    /// less than a minute ago.
    pub from_spool: usize,
    /// Number of slots with a value that another daemon has accepted but not yet written.
    pub from_peers: usize,
    /// Number of slots with a value from the store's tables.
    pub from_store: usize,
    /// Number of windows that have a value but are shown as unknown, because too few of their raw slots are
    /// known for the metric's xFilesFactor. They are not part of the counts above.
    pub hidden: usize,
}

impl Provenance {
    /// Number of slots with a value in the answer.
    pub fn known(&self) -> usize {
        self.from_head + self.from_spool + self.from_peers + self.from_store
    }
}

/// The slots of a series that have a value, in time order.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownSlots {
    /// Full name of the metric.
    pub name: Arc<str>,
    /// Seconds per slot.
    pub step: u32,
    /// The slots. A window with at least one known raw slot has a value, whatever the metric's xFilesFactor is.
    pub slots: Vec<KnownSlot>,
}

/// A slot with a value, and the points behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownSlot {
    /// Start of the slot in seconds since the epoch.
    pub time: i64,
    /// The value of the slot, as readers see it.
    pub value: f64,
    /// The sum of the points behind the value ([`Aggregation::sum_of`]); the value itself in the raw stage.
    ///
    /// [`Aggregation::sum_of`]: plumbago_model::Aggregation::sum_of
    pub sum: f64,
    /// The number of the points behind the value; 1 in the raw stage.
    pub count: u32,
    /// False if the window has too few points for the metric's xFilesFactor, so that Graphite's answers hide it.
    pub is_shown: bool,
}

impl KnownSlot {
    /// A slot with one point.
    pub fn raw(time: i64, value: f64) -> Self {
        Self { time, value, sum: value, count: 1, is_shown: true }
    }
}

impl From<Series> for KnownSlots {
    /// Counts one point behind each value.
    fn from(series: Series) -> Self {
        let Series { name, start, step, values } = series;
        let known = values.into_iter().enumerate().filter(|(_, value)| !value.is_nan());
        let slots = known.map(|(at, value)| KnownSlot::raw(start + at as i64 * i64::from(step), value));
        Self { name, step, slots: slots.collect() }
    }
}

/// Reads series by name.
#[boxed_futures]
pub trait SeriesSource: Send + Sync + Debug {
    /// Returns the series of a request in the order of its names. A name is left out if no such metric
    /// exists or its retention does not reach the range. A metric without points in the range is returned
    /// with NaN values.
    ///
    /// # Errors
    /// [`FetchError::Store`] if the store could not be read, [`FetchError::Stopping`] during shutdown, and
    /// [`FetchError::TooManySlots`] if the answer would be too large.
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError>;

    /// Returns only the slots of the same series that have a value, with the points behind each. Only these slots count
    /// for [`FetchRequest::slots_max`], so a long range with few points can be read. The default implementation reads
    /// all slots, and counts one point behind each value.
    ///
    /// # Errors
    /// As for [`Self::fetch`].
    async fn fetch_known(&self, request: &FetchRequest) -> Result<Vec<KnownSlots>, FetchError> {
        Ok(self.fetch(request).await?.into_iter().map(KnownSlots::from).collect())
    }

    /// Reads the same series, and returns where their slots came from instead of their values. A slot that is
    /// in several places is counted for the place whose value is shown.
    ///
    /// # Errors
    /// As for [`Self::fetch`].
    async fn explain(&self, request: &FetchRequest) -> Result<Vec<Provenance>, FetchError>;
}
