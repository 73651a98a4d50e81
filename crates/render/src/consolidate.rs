//! Reduces the number of points for `maxDataPoints`, exactly as Graphite does.

use std::borrow::Cow;

use crate::series::{Consolidation, TimeSeries};

/// The points of a series that are written.
#[derive(Debug, Clone, PartialEq)]
pub struct Points<'a> {
    /// Time of the first value.
    pub start: i64,
    /// Seconds between two values.
    pub step: i64,
    /// The values; NaN if unknown.
    pub values: Cow<'a, [f64]>,
}

/// The time from the earliest start to the latest end of all series, in seconds. Group sizes depend on it.
pub fn time_span(series: &[TimeSeries]) -> i64 {
    let start = series.iter().map(|s| s.start).min().unwrap_or(0);
    let end = series.iter().map(|s| s.end).max().unwrap_or(0);
    end.saturating_sub(start)
}

/// Whether any series has a slot, known or unknown. If none has, graphite-web's JSON is an empty list.
pub fn has_slots(series: &[TimeSeries]) -> bool {
    series.iter().any(|series| !series.values.is_empty())
}

/// The points of a series, in an answer that spans `span` seconds. At most `max_points` are returned; `None`
/// and zero mean no limit.
///
/// As in Graphite, groups are aligned to multiples of their length plus one step, and the values before the
/// first group are lost. Points after the end of the series are not shown.
pub fn points(series: &TimeSeries, span: i64, max_points: Option<usize>) -> Points<'_> {
    let whole = Points { start: series.start, step: series.step, values: Cow::Borrowed(&series.values) };
    let points = match max_points {
        None | Some(0) => whole,
        Some(1) => grouped(series, 0, series.values.len()),
        Some(max) => {
            let wanted = span as f64 / series.step as f64;
            if max as f64 >= wanted {
                whole
            } else {
                let group = (wanted / max as f64).ceil() as usize;
                grouped(series, steps_to_boundary(series, group), group)
            }
        }
    };
    cut(points, series.end)
}

/// The number of steps from the start to the first group. At least one: a series never begins with a whole
/// group.
fn steps_to_boundary(series: &TimeSeries, group: usize) -> usize {
    let length = (group as i64).saturating_mul(series.step);
    let nudge = length + series.start.rem_euclid(series.step) - series.start.rem_euclid(length);
    usize::try_from(nudge / series.step).unwrap_or(0)
}

/// Combines groups of `group` values. The first group's time is `skip` steps after the start; its values begin
/// one step earlier.
fn grouped(series: &TimeSeries, skip: usize, group: usize) -> Points<'_> {
    let lost = skip.saturating_sub(1).min(series.values.len());
    let values = &series.values[lost..];
    let fold = |chunk: &[f64]| fold(chunk, group, series.consolidation, series.x_files_factor);
    Points {
        start: series.start + (skip as i64).saturating_mul(series.step),
        step: (group.max(1) as i64).saturating_mul(series.step),
        values: Cow::Owned(values.chunks(group.max(1)).map(fold).collect()),
    }
}

/// Removes the values after `end`.
fn cut(mut points: Points<'_>, end: i64) -> Points<'_> {
    let shown = if end < points.start { 0 } else { (end - points.start) / points.step + 1 };
    let shown = usize::try_from(shown).unwrap_or(usize::MAX);
    if shown < points.values.len() {
        match &mut points.values {
            Cow::Borrowed(values) => *values = &values[..shown],
            Cow::Owned(values) => values.truncate(shown),
        }
    }
    points
}

/// Combines up to `group` values into one; NaN if too few are known.
pub fn fold(values: &[f64], group: usize, consolidation: Consolidation, x_files_factor: f64) -> f64 {
    let known = || values.iter().copied().filter(|v| !v.is_nan());
    let count = known().count();
    if count == 0 || count as f64 / (group.max(1) as f64) < x_files_factor {
        return f64::NAN;
    }
    let sum = || known().fold(0.0, |sum, v| sum + v);
    let folded = match consolidation {
        Consolidation::Average => Some(sum() / count as f64),
        Consolidation::AvgZero => Some(sum() / values.len() as f64),
        Consolidation::Sum => Some(sum()),
        Consolidation::Max => known().reduce(|a, b| if b > a { b } else { a }),
        Consolidation::Min => known().reduce(|a, b| if b < a { b } else { a }),
        Consolidation::First => known().next(),
        Consolidation::Last => known().next_back(),
    };
    folded.unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests;
