//! The selection of metrics for a verb, and the trait through which the metrics are found.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::verb_error::VerbError;

/// Number of names in one batch of [`MetricNames::find`].
pub const NAMES_IN_BATCH: usize = 1000;

/// Selects a set of metrics. Exactly one of the fields is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Which {
    /// Metrics whose names match this glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Tagged series that match all of these tag expressions, like `host=a` or `dc!=~^eu`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The metrics with these names. Names without a metric are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
}

impl Which {
    /// The metrics that match a glob.
    pub fn glob(glob: &str) -> Self {
        Self { glob: Some(glob.to_owned()), ..Self::default() }
    }

    /// All tagged series.
    pub fn tagged() -> Self {
        Self { tags: vec!["name=~.+".to_owned()], ..Self::default() }
    }

    /// Checks that exactly one way of selecting is used.
    ///
    /// # Errors
    /// A text that says how the metrics have to be named.
    pub fn check(&self) -> Result<(), String> {
        let ways = usize::from(self.glob.is_some())
            + usize::from(!self.tags.is_empty())
            + usize::from(self.names.is_some());
        if ways != 1 {
            return Err("name the metrics in one way: by a glob, by tag expressions, or by a list".to_owned());
        }
        if self.glob.as_ref().is_some_and(String::is_empty) {
            return Err("the glob is empty".to_owned());
        }
        Ok(())
    }
}

/// Batches of names, in the order in which they are found. An error is the last entry.
pub type NameBatches = mpsc::Receiver<Result<Vec<String>, VerbError>>;

/// A metric, a directory, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundNode {
    /// The full path; its components are separated by dots.
    pub path: String,
    /// Whether there is a metric with this name.
    pub is_metric: bool,
    /// Whether there are metrics below this path.
    pub is_directory: bool,
}

/// A tag or a value, with how many series have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TagSize {
    /// The tag, or the value.
    pub text: String,
    /// Number of series with this tag or value.
    pub series: u64,
    /// How many values the tag has; 0 for a value.
    pub values: u64,
}

/// The biggest tags, or the biggest values of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BiggestTags {
    /// The tags or values with the most series, largest first.
    pub biggest: Vec<TagSize>,
    /// The number of all tags or values.
    pub total: u64,
}

/// The names of the metrics that exist.
#[boxed_futures]
pub trait MetricNames: Send + Sync + Debug {
    /// Begins a search. The names are sent in batches of at most [`NAMES_IN_BATCH`], without duplicates,
    /// during the search. It waits for a slow reader, and ends when the receiver is dropped. Metrics that are
    /// created or deleted meanwhile may be missed or included; a metric that is deleted and created again may
    /// be sent twice.
    fn find(&self, which: &Which) -> NameBatches;

    /// Returns the metrics and directories that match a glob, sorted, at most `limit`.
    ///
    /// # Errors
    /// If the glob is not valid, or more match.
    async fn nodes(&self, glob: &str, limit: usize) -> Result<Vec<FoundNode>, VerbError>;

    /// Returns the tags, or the values of one tag, with the number of series that have them. Sorted, at most
    /// `limit`.
    ///
    /// # Errors
    /// If the process has no tags in memory.
    async fn tags(&self, tag: Option<&str>, limit: usize) -> Result<Vec<(String, u64)>, VerbError>;

    /// Returns the `limit` tags, or values of one tag, with the most series, largest first.
    ///
    /// # Errors
    /// If the process has no tags in memory.
    async fn biggest_tags(&self, tag: Option<&str>, limit: usize) -> Result<BiggestTags, VerbError>;
}

/// Counts the metrics of a selection.
///
/// # Errors
///
/// If the metrics cannot be searched.
pub async fn count(names: &dyn MetricNames, which: &Which) -> Result<u64, VerbError> {
    let mut batches = names.find(which);
    let mut count = 0;
    while let Some(batch) = batches.recv().await {
        count += batch?.len() as u64;
    }
    Ok(count)
}
