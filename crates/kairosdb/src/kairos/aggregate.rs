//! The aggregators: what becomes of the points of a group.

mod one_by_one;
mod range;
mod read;

use jiff::tz::TimeZone;

use super::time::Duration;

/// A point on its way through the aggregators. Only `gaps` makes points without a value.
pub type Sample = (i64, Option<f64>);

/// One aggregator of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregator {
    /// One value, or some, for each range of time.
    Range(Sampling, Fold),
    /// Change per time.
    Rate(Duration),
    /// Value per time since the point before.
    Sampler(Duration),
    /// Change since the point before.
    Diff,
    /// The value times a factor.
    Scale(f64),
    /// The value divided.
    Div(f64),
    /// The mean of so many points.
    Sma(usize),
    /// Without the first or the last point, or both.
    Trim(bool, bool),
    /// Without the points for which this holds.
    Filter(Compare, f64),
    /// How many thresholds a value has passed, from below; from above if the flag is set.
    Score(Vec<f64>, bool),
}

/// How time is divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Length of a range.
    pub duration: Duration,
    /// Whether ranges begin with a day, week, month or year.
    pub align: bool,
    /// Which time a value gets.
    pub stamp: Stamp,
}

/// Which time the value of a range gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// That of its first point; of `last`, of its last.
    Point,
    /// The start of the range.
    Start,
    /// The start of the next range.
    End,
}

/// What is made of the points of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The mean.
    Avg,
    /// The deviation of a sample, times a factor and around the mean if there is one.
    Dev(Option<f64>),
    /// How many.
    Count,
    /// The first.
    First,
    /// The last.
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
    /// First time, in milliseconds.
    pub start_ms: i64,
    /// The last time or now, whichever is earlier.
    pub end_ms: i64,
    /// The zone of calendars.
    pub zone: &'a TimeZone,
    /// Most points that an aggregator may make.
    pub points_max: usize,
}

impl Aggregator {
    /// Whether it may make more points than it is given.
    pub fn makes_points(&self) -> bool {
        matches!(self, Self::Range(_, Fold::Gaps))
    }

    /// Applies the aggregator to points in ascending order of time.
    ///
    /// # Errors
    /// If it is not possible for these points.
    pub fn apply(&self, points: Vec<Sample>, span: Span<'_>) -> Result<Vec<Sample>, String> {
        match self {
            Self::Range(sampling, fold) => range::apply(*sampling, *fold, &points, span),
            Self::Rate(unit) => one_by_one::pairs(&points, "rate", |before, at| {
                (at.1 - before.1) / (at.0 - before.0) as f64 * length(*unit)
            }),
            Self::Sampler(unit) => one_by_one::pairs(&points, "sampler", |before, at| {
                at.1 / (at.0 - before.0) as f64 * length(*unit)
            }),
            Self::Diff => Ok(one_by_one::diff(&points)),
            Self::Scale(factor) => Ok(one_by_one::each(points, |value| value * factor)),
            Self::Div(divisor) => Ok(one_by_one::each(points, |value| value / divisor)),
            Self::Sma(size) => Ok(one_by_one::sma(&points, *size)),
            Self::Trim(first, last) => Ok(one_by_one::trim(points, *first, *last)),
            Self::Filter(compare, threshold) => Ok(one_by_one::filter(points, *compare, *threshold)),
            Self::Score(thresholds, descending) => {
                Ok(one_by_one::each(points, |value| one_by_one::score(value, thresholds, *descending)))
            }
        }
    }
}

fn length(unit: Duration) -> f64 {
    unit.value as f64 * unit.unit.millis() as f64
}

#[cfg(test)]
mod tests;
