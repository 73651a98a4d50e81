//! Carbonlink: the port on which graphite-web requests points from carbon that are not on disk yet, and for
//! the aggregation methods of metrics.
//!
//! Requests and replies are pickles in frames, as in carbon. [`request`] reads requests with the decoder of the
//! pickle protocol. [`reply`] writes replies. [`connection`] does both in turn. The points and settings come from a
//! [`Cache`], which the binary implements. Start at [`Carbonlink`].

mod bound;
mod config;
mod connection;
mod refused;
mod reply;
mod request;
mod stats;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;

pub use bound::{BindError, Carbonlink};
pub use config::Config;

/// Reads a request, for the fuzzer.
pub(crate) fn check_request(frame: &[u8]) {
    const METRICS_MAX: usize = 100;
    if let Ok(request::Request::Bulk(metrics)) = request::read(frame, METRICS_MAX) {
        let bytes: usize = metrics.iter().map(|name| name.len()).sum();
        assert!(metrics.len() <= METRICS_MAX && bytes <= 2 * frame.len());
    }
}

/// The points of a metric: times in seconds since the epoch, and values.
pub type Points = Vec<(u32, f64)>;

/// Answers the requests of carbonlink.
#[boxed_futures]
pub trait Cache: Send + Sync + 'static {
    /// Returns the points of stage 0 of each metric that are accepted and not in the store's tables yet, in
    /// the order of `names`. A metric that does not exist has no points. `None` if there are more than
    /// `points_max` points in total.
    ///
    /// # Errors
    /// If the points cannot be read at the moment.
    async fn points(&self, names: &[Arc<str>], points_max: usize) -> Result<Option<Vec<Points>>, CacheError>;

    /// Returns a setting of a metric.
    ///
    /// # Errors
    /// If there is no such metric or setting, or it cannot be read at the moment.
    async fn metadata(&self, metric: &str, key: &str) -> Result<String, CacheError>;

    /// Changes a setting of a metric. Returns the old value.
    ///
    /// # Errors
    /// If there is no such metric or setting, if it cannot have this value, or if it cannot be changed at the
    /// moment.
    async fn set_metadata(&self, metric: &str, key: &str, value: &str) -> Result<String, CacheError>;
}

/// Why a request is not answered, as a sentence for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CacheError(pub String);
