//! Aggregators over time ranges.

use super::{Amount, Fold, Sample, Sampling, Span, Stamp};
use crate::kairos::time::Ranges;
use crate::statistics::{at_position, squares, sum};

pub(super) fn apply(
    sampling: &Sampling,
    fold: Fold,
    points: &[Sample],
    span: Span<'_>,
) -> Result<Vec<Sample>, String> {
    let zone = sampling.zone.as_ref().unwrap_or(span.zone);
    let mut ranges = Ranges::new(sampling.duration, sampling.align, span.start_ms, zone);
    if fold == Fold::Gaps {
        return gaps(&mut ranges, points, span, sampling.trim);
    }
    let mut made = Vec::new();
    let mut rest = points;
    while let Some((first, _)) = rest.first() {
        let (from, until) = ranges.of(*first);
        let len = rest.iter().position(|(ms, _)| *ms >= until).unwrap_or(rest.len()).max(1);
        let (group, after) = rest.split_at(len);
        rest = after;
        if fold == Fold::LeastSquares {
            least_squares(group, &mut made);
            continue;
        }
        let of_point = if fold == Fold::Last { group[len - 1].0 } else { group[0].0 };
        let at = match sampling.stamp {
            Stamp::Point => of_point,
            Stamp::Start => from,
            Stamp::End => until,
        };
        made.push((at, value(fold, group).map(Amount::from)));
    }
    Ok(made)
}

fn values(group: &[Sample]) -> impl Iterator<Item = f64> + '_ {
    group.iter().filter_map(|(_, value)| Some((*value)?.value))
}

/// The value of a range of at least one point. Points without a value, which `gaps` makes, are only counted.
/// In sums, means and counts, a slot of a coarse stage counts with all its points; elsewhere it is one point
/// with its value.
fn value(fold: Fold, group: &[Sample]) -> Option<f64> {
    let known = values(group).count();
    let value_of = |sample: &Sample| Some(sample.1?.value);
    match fold {
        Fold::Count => {
            let count = |(_, one): &Sample| one.map_or(1.0, |one| f64::from(one.count));
            return Some(group.iter().map(count).sum::<f64>());
        }
        Fold::First => return group.first().and_then(value_of),
        Fold::Last => return group.last().and_then(value_of),
        _ if known == 0 => return None,
        _ => {}
    }
    let sum = || sum(group.iter().filter_map(|(_, one)| Some((*one)?.sum)));
    let count = || group.iter().filter_map(|(_, one)| Some(f64::from((*one)?.count))).sum::<f64>();
    let mean = || sum() / count();
    Some(match fold {
        Fold::Sum => sum(),
        Fold::Min => values(group).fold(f64::INFINITY, f64::min),
        Fold::Max => values(group).fold(f64::NEG_INFINITY, f64::max),
        Fold::Dev(around) => {
            let dev = deviation(group, known);
            around.map_or(dev, |factor| mean() + factor * dev)
        }
        Fold::Percentile(quantile) => {
            let mut values: Vec<f64> = values(group).collect();
            at_position(&mut values, quantile * (known + 1) as f64)
        }
        _ => mean(),
    })
}

/// The standard deviation of a sample of `known` values; 0 for a single value.
fn deviation(group: &[Sample], known: usize) -> f64 {
    if known < 2 { 0.0 } else { (squares(values(group)) / (known as f64 - 1.0)).max(0.0).sqrt() }
}

/// Returns one or two points unchanged. For more points, returns the fitted line's values at the first and
/// the last time.
fn least_squares(group: &[Sample], made: &mut Vec<Sample>) {
    let group: Vec<(i64, f64)> = group.iter().filter_map(|(ms, one)| Some((*ms, (*one)?.value))).collect();
    if group.len() <= 2 {
        made.extend(group.iter().map(|(ms, value)| (*ms, Some(Amount::from(*value)))));
        return;
    }
    // Times are relative to the first one, so that their squares keep all digits.
    let origin = group[0].0;
    let count = group.len() as f64;
    let x = |ms: i64| (ms - origin) as f64;
    let mean_x = group.iter().map(|(ms, _)| x(*ms)).sum::<f64>() / count;
    let mean_y = group.iter().map(|(_, value)| value).sum::<f64>() / count;
    let xx: f64 = group.iter().map(|(ms, _)| (x(*ms) - mean_x).powi(2)).sum();
    let xy: f64 = group.iter().map(|(ms, value)| (x(*ms) - mean_x) * (value - mean_y)).sum();
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    for (ms, _) in [group[0], group[group.len() - 1]] {
        made.push((ms, Some(Amount::from(mean_y + slope * (x(ms) - mean_x)))));
    }
}

/// All points, and a point without a value at the start of each range that has no points. The ranges are
/// those of the query, or with `trim` those from the first to the last point.
fn gaps(ranges: &mut Ranges, points: &[Sample], span: Span<'_>, trim: bool) -> Result<Vec<Sample>, String> {
    let mut made = Vec::new();
    let mut rest = points;
    let (first, last) = match (points.first(), points.last()) {
        (Some((first, _)), Some((last, _))) if trim => (*first, *last),
        _ if trim => return Ok(made),
        _ => (span.start_ms, span.end_ms),
    };
    let mut at = first;
    // Earlier aggregators may have put points after the end of the query, at the ends of their ranges.
    while at <= last || !rest.is_empty() {
        let (from, until) = ranges.of(at);
        let len = rest.iter().position(|(ms, _)| *ms >= until).unwrap_or(rest.len());
        let (group, after) = rest.split_at(len);
        rest = after;
        if group.is_empty() {
            made.push((from, None));
        } else {
            made.extend_from_slice(group);
        }
        if made.len() > span.points_max {
            return Err(format!("gaps makes more than {} points (api.limits.points)", span.points_max));
        }
        at = until.max(at + 1);
    }
    Ok(made)
}
