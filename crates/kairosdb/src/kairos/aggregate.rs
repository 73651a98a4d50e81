//! The aggregators, which compute values from the points of a group.

mod one_by_one;
mod range;
mod read;

use jiff::tz::TimeZone;

use super::time::Duration;

/// A point on its way through the aggregators: its time in milliseconds and its value. Only `gaps` makes
/// points without a value.
pub type Sample = (i64, Option<Amount>);

/// The value of one point, or of all points in one slot of a coarse stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// The value that the point or the slot has.
    pub value: f64,
    /// The sum of the points.
    pub sum: f64,
    /// The number of the points, at least 1.
    pub count: u32,
}

impl Amount {
    /// Applies a change to the value and to the sum. It must be linear, like a multiplication.
    fn scaled(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), sum: change(self.sum), ..self }
    }

    /// Gives each of the points this value.
    fn with_value(self, value: f64) -> Self {
        Self { value, sum: value * f64::from(self.count), ..self }
    }
}

impl From<f64> for Amount {
    fn from(value: f64) -> Self {
        Self { value, sum: value, count: 1 }
    }
}

/// One aggregator of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregator {
    /// One or more values for each range of time.
    Range(Sampling, Fold),
    /// Change per unit of time. A calendar unit may have its own time zone.
    Rate(Duration, Option<TimeZone>),
    /// Value per unit of time since the previous point.
    Sampler(Duration, Option<TimeZone>),
    /// Change since the previous point.
    Diff,
    /// The value times a factor.
    Scale(f64),
    /// The value divided by a number.
    Div(f64),
    /// The mean of this many points.
    Sma(usize),
    /// All points except the first, the last, or both.
    Trim(bool, bool),
    /// All points except those for which the comparison holds.
    Filter(Compare, f64),
    /// How many thresholds a value has passed, from below; from above if the flag is set.
    Score(Vec<Threshold>, bool),
}

/// A threshold of `score`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The value to pass.
    pub value: f64,
    /// Whether a value equal to the threshold has passed it.
    pub is_inferior: bool,
}

/// How time is divided.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Length of a range.
    pub duration: Duration,
    /// Whether ranges begin with a day, week, month or year.
    pub align: bool,
    /// Which time the value of a range gets.
    pub stamp: Stamp,
    /// The time zone of calendar units, if it differs from that of the query.
    pub zone: Option<TimeZone>,
    /// Whether `gaps` begins with the first point and ends with the last.
    pub trim: bool,
}

/// Which time the value of a range gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// The time of its first point; for `last`, the time of its last point.
    Point,
    /// The start of the range.
    Start,
    /// The start of the next range.
    End,
}

/// What is computed from the points of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The mean.
    Avg,
    /// The standard deviation of a sample. If there is a factor, the result is the mean plus the deviation
    /// times the factor.
    Dev(Option<f64>),
    /// The number of points.
    Count,
    /// The first value.
    First,
    /// The last value.
    Last,
    /// A quantile from 0 to 1.
    Percentile(f64),
    /// The values of the fitted line at the first and the last point.
    LeastSquares,
    /// All points, and a point without a value for a range that has none.
    Gaps,
}

/// How a filter compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Less.
    Lt,
    /// Less or equal.
    Lte,
    /// Greater.
    Gt,
    /// Greater or equal.
    Gte,
    /// Equal.
    Equal,
    /// Not equal.
    Ne,
}

/// The times of a query, as aggregators need them.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// The start of the query, in milliseconds since the epoch.
    pub start_ms: i64,
    /// The end of the query or now, whichever is earlier, in milliseconds since the epoch.
    pub end_ms: i64,
    /// The time zone in which days, weeks, months and years begin.
    pub zone: &'a TimeZone,
    /// Maximum number of points that an aggregator may make.
    pub points_max: usize,
}

impl Aggregator {
    /// Whether the aggregator may make more points than it receives.
    pub fn makes_points(&self) -> bool {
        matches!(self, Self::Range(_, Fold::Gaps))
    }

    /// Whether the aggregator needs points in ascending order of time. The other aggregators take the points
    /// in the order in which they are given.
    pub fn is_over_ranges(&self) -> bool {
        matches!(self, Self::Range(..))
    }

    /// Applies the aggregator to points in order of time.
    ///
    /// # Errors
    /// If the aggregator cannot be applied to these points.
    pub fn apply(&self, points: Vec<Sample>, span: Span<'_>) -> Result<Vec<Sample>, String> {
        match self {
            Self::Range(sampling, fold) => range::apply(sampling, *fold, &points, span),
            Self::Rate(unit, zone) => one_by_one::pairs(&points, "rate", |before, at| {
                let length = unit.length_from(before.0, zone.as_ref().unwrap_or(span.zone));
                (at.1 - before.1) / (at.0 - before.0) as f64 * length
            }),
            Self::Sampler(unit, zone) => one_by_one::pairs(&points, "sampler", |before, at| {
                let length = unit.length_from(before.0, zone.as_ref().unwrap_or(span.zone));
                at.1 / (at.0 - before.0) as f64 * length
            }),
            Self::Diff => Ok(one_by_one::diff(&points)),
            Self::Scale(factor) => Ok(one_by_one::each(points, |one| one.scaled(|value| value * factor))),
            Self::Div(divisor) => Ok(one_by_one::each(points, |one| one.scaled(|value| value / divisor))),
            Self::Sma(size) => Ok(one_by_one::sma(&points, *size)),
            Self::Trim(first, last) => Ok(one_by_one::trim(points, *first, *last)),
            Self::Filter(compare, threshold) => Ok(one_by_one::filter(points, *compare, *threshold)),
            Self::Score(thresholds, descending) => {
                let score = |one: Amount| one_by_one::score(one.value, thresholds, *descending);
                Ok(one_by_one::each(points, |one| one.with_value(score(one))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
