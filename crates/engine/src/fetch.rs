//! What a reader asks of the engine.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::Series;
use plumbago_store::StoreError;

/// A read of many metrics over one time range, by Graphite's rules: the window is (from, until],
/// one stage answers for a metric, the finest that covers `now - from`.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// Exact names.
    pub names: Vec<Arc<str>>,
    /// Seconds since the epoch, excluded.
    pub from: i64,
    /// Seconds since the epoch, included.
    pub until: i64,
    /// The request's now.
    pub now: i64,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The store failed.
    #[error("failed to read points")]
    Store(#[from] StoreError),
    /// The engine was stopped.
    #[error("the engine is stopping")]
    Stopping,
}

/// Gives series for names. A name without a metric, or whose retention does not reach the range, is
/// left out; a metric without points in the range is a series of unknown values.
#[async_trait]
pub trait SeriesSource: Send + Sync + Debug {
    /// Reads the metrics, in the order asked.
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError>;
}
