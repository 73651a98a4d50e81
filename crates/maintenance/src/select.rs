//! Which metrics a verb is about, and the trait through which they are found.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::verb_error::VerbError;

/// Names in one batch of [`MetricNames::find`].
pub const NAMES_IN_BATCH: usize = 1000;

/// Names a set of metrics. Exactly one of the fields is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Which {
    /// Metrics whose names match this glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Tagged series that match all of these tag expressions, like `host=a` or `dc!=~^eu`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The metrics with these names. Names of no metric are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
}

impl Which {
    /// The metrics that match a glob.
    pub fn glob(glob: &str) -> Self {
        Self { glob: Some(glob.to_owned()), ..Self::default() }
    }

    /// Checks that exactly one way of selecting is used.
    ///
    /// # Errors
    /// What is wrong.
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

/// Batches of names, as they are found. An error is the last entry.
pub type NameBatches = mpsc::Receiver<Result<Vec<String>, VerbError>>;

/// A metric, a directory, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundNode {
    /// The full path.
    pub path: String,
    /// There is a metric with this name.
    pub is_metric: bool,
    /// There are metrics below this path.
    pub is_directory: bool,
}

/// A tag or a value, with how many series have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TagSize {
    /// The tag, or the value.
    pub text: String,
    /// How many series have it.
    pub series: u64,
    /// How many values the tag has; 0 for a value.
    pub values: u64,
}

/// The biggest tags, or the biggest values of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BiggestTags {
    /// Those with the most series, these first.
    pub biggest: Vec<TagSize>,
    /// How many there are.
    pub total: u64,
}

/// The names of the metrics that exist.
#[async_trait]
pub trait MetricNames: Send + Sync + Debug {
    /// Begins a search. The names come in batches of at most [`NAMES_IN_BATCH`], each name once, while the search goes
    /// on; it waits for a reader that is slow, and ends when the reader is gone. Metrics that are created or deleted
    /// meanwhile may be missed or included; one that is both may come twice.
    fn find(&self, which: &Which) -> NameBatches;

    /// The metrics and directories that match a glob, sorted, at most `limit`.
    ///
    /// # Errors
    /// If the glob is not valid, or more match.
    async fn nodes(&self, glob: &str, limit: usize) -> Result<Vec<FoundNode>, VerbError>;

    /// The tags, or the values of one tag, with the number of series that have them. Sorted, at most `limit`.
    ///
    /// # Errors
    /// If the process has no tags in memory.
    async fn tags(&self, tag: Option<&str>, limit: usize) -> Result<Vec<(String, u64)>, VerbError>;

    /// The `limit` tags that most series have, or values of one tag, these first.
    ///
    /// # Errors
    /// If the process has no tags in memory.
    async fn biggest_tags(&self, tag: Option<&str>, limit: usize) -> Result<BiggestTags, VerbError>;
}

/// Counts the metrics of a selection.
///
/// # Errors
/// If they cannot be searched.
pub async fn count(names: &dyn MetricNames, which: &Which) -> Result<u64, VerbError> {
    let mut batches = names.find(which);
    let mut count = 0;
    while let Some(batch) = batches.recv().await {
        count += batch?.len() as u64;
    }
    Ok(count)
}
