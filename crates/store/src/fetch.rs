//! Reads of whole series: what the API asks for and the engine's reader answers.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::Series;

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
    /// The time that the request takes for now, in seconds since the epoch. Stages are chosen by it.
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
}
