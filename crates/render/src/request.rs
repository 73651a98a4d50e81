//! What a render request says beside its targets.

use crate::TimeZone;

/// A range of time by Graphite's rule: after `from`, up to and including `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// Seconds since the epoch, excluded.
    pub from: i64,
    /// Seconds since the epoch, included.
    pub until: i64,
}

/// The circumstances of an evaluation.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is asked for.
    pub range: TimeRange,
    /// The request's now.
    pub now: i64,
    /// The zone in which days begin.
    pub zone: TimeZone,
    /// Known ÷ all values below which a consolidated value is unknown; 0 asks for one known value.
    pub x_files_factor: f64,
    /// `template[name]=value` of the request; they win over the parameters of `template()`.
    pub templates: Vec<(String, String)>,
}
