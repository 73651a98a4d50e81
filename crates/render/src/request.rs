//! The parts of a render request besides its targets.

use std::fmt;

use crate::TimeZone;

/// A range of time. By Graphite's rule it excludes `from` and includes `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// Start (exclusive), in seconds since the epoch.
    pub from: i64,
    /// End (inclusive), in seconds since the epoch.
    pub until: i64,
}

impl TimeRange {
    /// The range with its start moved `seconds` earlier.
    #[must_use]
    pub fn earlier(self, seconds: i64) -> Self {
        Self { from: clamped(self.from.saturating_sub(seconds)), ..self }
    }

    /// The range moved `seconds` later.
    #[must_use]
    pub fn shifted(self, seconds: i64) -> Self {
        let shifted = |time: i64| clamped(time.saturating_add(seconds));
        Self { from: shifted(self.from), until: shifted(self.until) }
    }
}

/// Limits a time so that arithmetic cannot overflow.
fn clamped(time: i64) -> i64 {
    const SECONDS_MAX: i64 = 1 << 42;
    time.clamp(-SECONDS_MAX, SECONDS_MAX)
}

/// The parameters of an evaluation.
#[derive(Debug, Clone)]
pub struct Request {
    /// The range of the answer.
    pub range: TimeRange,
    /// The current time for this request, in seconds since the epoch.
    pub now: i64,
    /// The time zone in which days begin.
    pub zone: TimeZone,
    /// The share of values, from 0 to 1, that must be known in a consolidated value. With 0 one known value is
    /// enough.
    pub x_files_factor: f64,
    /// Parameters `template[name]=value` of the request. They override those of `template()`.
    pub templates: Vec<(String, String)>,
    /// The limits of the evaluation.
    pub limits: Limits,
}

/// The limits of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of evaluated calls. A function that reads its argument over another range evaluates it
    /// again.
    pub calls: usize,
    /// Maximum number of points made by all functions together.
    pub points: usize,
    /// Maximum number of fetches: different pairs of expression and range.
    pub fetches: usize,
}

/// One of the [`Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// [`Limits::calls`].
    Calls,
    /// [`Limits::points`].
    Points,
    /// [`Limits::fetches`].
    Fetches,
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calls => "evaluations of calls",
            Self::Points => "points made by functions",
            Self::Fetches => "fetches",
        })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { calls: 100_000, points: 200_000_000, fetches: 10_000 }
    }
}
