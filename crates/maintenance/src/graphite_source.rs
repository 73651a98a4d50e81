//! Another Graphite server, as an import sees it: names, series of a range, events.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use serde::{Deserialize, Serialize};

/// Where a server is, and how to access it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceServer {
    /// The address, like `https://graphite.example/path`, without a user name.
    pub url: String,
    /// A file with `NAME:PASSWORD`, which is sent with each request. It is a file because jobs show their
    /// parameters.
    pub user_file: Option<PathBuf>,
    /// A file with the certificate authorities to trust for `https`, in PEM format; `None` for those of the
    /// system.
    pub ca: Option<PathBuf>,
}

/// A range of time, in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRange {
    /// The first second of the range, since the epoch.
    pub from: i64,
    /// The last second of the range, since the epoch.
    pub until: i64,
    /// The time that the server should use as now, if it supports that; seconds since the epoch.
    pub now: i64,
}

/// A series as the server returns it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceSeries {
    /// The name, as it was requested.
    pub name: String,
    /// Seconds between two points; 0 if the answer does not contain the step.
    pub step: u32,
    /// Known points, in the order of time.
    pub points: Vec<(i64, f64)>,
}

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceEvent {
    /// Seconds since the epoch.
    pub when: i64,
    /// The title.
    pub what: String,
    /// A longer description; may be empty.
    pub data: String,
    /// The tags.
    pub tags: Vec<String>,
}

/// Why a server did not answer a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The server refuses this request, or cannot answer it. Another request may succeed.
    #[error("{0}")]
    Refused(String),
    /// The answer is too large. A smaller request may succeed.
    #[error("{0}")]
    TooLarge(String),
    /// The server cannot be reached, or does not recover.
    #[error("{0}")]
    Away(String),
}

/// A Graphite server from which data is requested. The methods wait and repeat a request if the server is
/// overloaded.
#[boxed_futures]
pub trait GraphiteSource: Send + Sync + Debug {
    /// Returns the names of the server's metrics; if a glob is given, those that match it.
    ///
    /// # Errors
    ///
    /// See [`SourceError`].
    async fn names(&self, glob: Option<&str>) -> Result<Vec<String>, SourceError>;

    /// Returns the names of the tagged series that match all of these tag expressions.
    ///
    /// # Errors
    /// See [`SourceError`].
    async fn tagged(&self, expressions: &[String]) -> Result<Vec<String>, SourceError>;

    /// Returns the series of these metrics, as stored. Series that the server does not have may be missing.
    ///
    /// # Errors
    /// See [`SourceError`].
    async fn series(&self, names: &[&str], range: SourceRange) -> Result<Vec<SourceSeries>, SourceError>;

    /// Returns the events from `from` until `until`, in seconds since the epoch.
    ///
    /// # Errors
    /// See [`SourceError`].
    async fn events(&self, from: i64, until: i64) -> Result<Vec<SourceEvent>, SourceError>;
}

/// Makes [`GraphiteSource`]s.
pub trait GraphiteConnector: Send + Sync + Debug {
    /// Prepares requests to a server. Nothing is sent yet.
    ///
    /// # Errors
    /// The error says what is wrong with the address, the user or the authorities.
    fn connect(&self, server: &SourceServer) -> Result<Arc<dyn GraphiteSource>, String>;
}
