//! Another Graphite server, as an import sees it: names, series of a range, events.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Where a server is, and how it is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceServer {
    /// Its address, like `https://graphite.example/path`, without a user.
    pub url: String,
    /// A file with `NAME:PASSWORD`, which goes with each request. It is a file because jobs show their parameters.
    pub user_file: Option<PathBuf>,
    /// The authorities to trust for `https`, in PEM format; `None` for those of the system.
    pub ca: Option<PathBuf>,
}

/// A range of time, in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRange {
    /// The first second.
    pub from: i64,
    /// The last one.
    pub until: i64,
    /// The time that the server should use as now, if it supports that.
    pub now: i64,
}

/// A series as the server answers it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceSeries {
    /// Its name, as it was asked for.
    pub name: String,
    /// Seconds between two points; 0 if the answer does not say.
    pub step: u32,
    /// Known points, in the order of time.
    pub points: Vec<(i64, f64)>,
}

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceEvent {
    /// Seconds since the epoch.
    pub when: i64,
    /// Its title.
    pub what: String,
    /// More about it; may be empty.
    pub data: String,
    /// Its tags.
    pub tags: Vec<String>,
}

/// Why a server did not answer a question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It refuses this question, or cannot answer it. Another one may work.
    #[error("{0}")]
    Refused(String),
    /// The answer is larger than is read. A smaller question may work.
    #[error("{0}")]
    TooLarge(String),
    /// It cannot be reached, or does not recover.
    #[error("{0}")]
    Away(String),
}

/// A Graphite server that is asked. Its methods wait and ask again if the server has too much to do.
#[async_trait]
pub trait GraphiteSource: Send + Sync + Debug {
    /// The names of its metrics; those that a glob matches, if one is given.
    ///
    /// # Errors
    /// See [`SourceError`].
    async fn names(&self, glob: Option<&str>) -> Result<Vec<String>, SourceError>;

    /// The names of the tagged series that match all of these tag expressions.
    ///
    /// # Errors
    /// See [`SourceError`].
    async fn tagged(&self, expressions: &[String]) -> Result<Vec<String>, SourceError>;

    /// The series of these metrics, as stored. Those of which it knows nothing may be missing.
    ///
    /// # Errors
    /// See [`SourceError`].
    async fn series(&self, names: &[&str], range: SourceRange) -> Result<Vec<SourceSeries>, SourceError>;

    /// Its events from a time until another, in seconds since the epoch.
    ///
    /// # Errors
    /// See [`SourceError`].
    async fn events(&self, from: i64, until: i64) -> Result<Vec<SourceEvent>, SourceError>;
}

/// Makes [`GraphiteSource`]s.
pub trait GraphiteConnector: Send + Sync + Debug {
    /// Prepares to ask a server. Nothing is asked yet.
    ///
    /// # Errors
    /// What is wrong with its address, its user or its authorities.
    fn connect(&self, server: &SourceServer) -> Result<Arc<dyn GraphiteSource>, String>;
}
