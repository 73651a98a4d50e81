//! What has to be fetched before targets can be evaluated.

use std::sync::Arc;

use crate::eval::{Fetched, Step, TargetError, evaluate};
use crate::request::{Request, TimeRange};
use crate::target::Target;

/// How the metrics of a fetch are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The expression is a name or a glob.
    Glob,
    /// The expression is the raw text of a `seriesByTag(…)` call.
    Tags,
    /// The expression is the tags of `events(…)`, separated by LF, `*` for all events; one series with
    /// a step of one second is wanted, which counts them.
    Events,
}

/// One expression over one range.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fetch {
    /// The text as it names results, and as cluster front ends expect it back.
    pub expression: Arc<str>,
    /// How to find its metrics.
    pub source: Source,
    /// For when.
    pub range: TimeRange,
}

/// Fetches that an evaluation needs, each once.
///
/// Planning is evaluating with nothing fetched: functions that read their argument over other ranges
/// name these ranges too, as far as they follow from the request. What follows only from data (the
/// window of `movingAverage(x, 10)` is ten of its steps) is asked for by a later round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which the targets name them.
    pub fetches: Vec<Fetch>,
}

impl Plan {
    /// The fetches of the first round.
    pub fn new(targets: &[Target], request: &Request) -> Result<Self, TargetError> {
        match evaluate(targets, request, &Fetched::default())? {
            Step::Fetch(plan) => Ok(plan),
            Step::Done(_) => Ok(Self::default()),
        }
    }
}
