//! Reads of whole series: the interface between the API and the engine's reader.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
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

/// A series with the points behind each of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighted {
    /// The series. A window with at least one known slot has a value, whatever the metric's xFilesFactor is.
    pub series: Series,
    /// For each value, the sum and the number of the points behind it ([`Aggregation::sum_of`]). Empty if
    /// there is one point behind each value, as in the raw stage.
    ///
    /// [`Aggregation::sum_of`]: plumbago_model::Aggregation::sum_of
    pub weights: Vec<(f64, u32)>,
}

/// Reads series by name.
#[async_trait]
pub trait SeriesSource: Send + Sync + Debug {
    /// Returns the series of a request in the order of its names. A name is left out if no such metric
    /// exists or its retention does not reach the range. A metric without points in the range is returned
    /// with NaN values.
    ///
    /// # Errors
    /// [`FetchError::Store`] if the store could not be read, [`FetchError::Stopping`] during shutdown.
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError>;

    /// Returns the same series with the points behind each value. The default implementation counts one point
    /// behind each value.
    ///
    /// # Errors
    /// As for [`Self::fetch`].
    async fn fetch_weighted(&self, request: &FetchRequest) -> Result<Vec<Weighted>, FetchError> {
        let series = self.fetch(request).await?;
        Ok(series.into_iter().map(|series| Weighted { series, weights: Vec::new() }).collect())
    }

    /// Reads the same series, and returns where their slots came from instead of their values. A slot that is
    /// in several places is counted for the place whose value is shown.
    ///
    /// # Errors
    /// As for [`Self::fetch`].
    async fn explain(&self, request: &FetchRequest) -> Result<Vec<Provenance>, FetchError>;
}
