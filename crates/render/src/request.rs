//! What a render request says beside its targets.

use std::fmt;

use crate::TimeZone;

/// A range of time by Graphite's rule: after `from`, up to and including `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// Seconds since the epoch, excluded.
    pub from: i64,
    /// Seconds since the epoch, included.
    pub until: i64,
}

impl TimeRange {
    /// The range that begins `seconds` earlier.
    #[must_use]
    pub fn earlier(self, seconds: i64) -> Self {
        Self { from: clamped(self.from.saturating_sub(seconds)), ..self }
    }

    /// The range as a whole, `seconds` later.
    #[must_use]
    pub fn shifted(self, seconds: i64) -> Self {
        let shifted = |time: i64| clamped(time.saturating_add(seconds));
        Self { from: shifted(self.from), until: shifted(self.until) }
    }
}

/// Not further away than times can be added to.
fn clamped(time: i64) -> i64 {
    const SECONDS_MAX: i64 = 1 << 42;
    time.clamp(-SECONDS_MAX, SECONDS_MAX)
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
    /// How much it may take.
    pub limits: Limits,
}

/// How much one evaluation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls evaluated; a function that needs its argument over another range evaluates it again.
    pub calls: usize,
    /// Points that functions make, all calls together.
    pub points: usize,
    /// Different expressions and ranges to fetch.
    pub fetches: usize,
}

/// What is limited.
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
