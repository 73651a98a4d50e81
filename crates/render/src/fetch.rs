//! The series that must be fetched before targets can be evaluated.

use std::collections::HashMap;
use std::sync::Arc;

use crate::request::TimeRange;
use crate::series::TimeSeries;

/// How to find the metrics of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The expression is a name or a glob.
    Glob,
    /// The expression is the raw text of a `seriesByTag(…)` call.
    Tags,
    /// The expression holds the tags of `events(…)`, separated by LF; `*` stands for all events. The result is
    /// one series with a step of one second, which counts the events.
    Events,
}

/// An expression over a range of time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fetch {
    /// The expression. Series made from it are named after it, and cluster front ends expect it in the answer.
    pub expression: Arc<str>,
    /// How to find its metrics.
    pub source: Source,
    /// The range of time.
    pub range: TimeRange,
}

/// The fetches that an evaluation needs, without duplicates.
///
/// Planning means evaluating without any series. Functions that read their argument over other ranges state
/// these ranges if they follow from the request. Ranges that depend on data are determined by a later round:
/// the window of `movingAverage(x, 10)` is ten steps of x.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchPlan {
    /// The fetches in the order of the targets.
    pub fetches: Vec<Fetch>,
}

/// Fetched series, by their fetch.
#[derive(Debug, Default)]
pub struct Fetched(HashMap<Fetch, Vec<TimeSeries>>);

impl Fetched {
    /// Adds the series of a fetch. They must be sorted by name, without duplicates.
    pub fn insert(&mut self, fetch: Fetch, series: Vec<TimeSeries>) {
        self.0.insert(fetch, series);
    }

    /// The number of fetches.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no fetches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, fetch: &Fetch) -> Option<&Vec<TimeSeries>> {
        self.0.get(fetch)
    }
}
