//! Aggregators over ranges of time.

use super::{Fold, Sample, Sampling, Span, Stamp};
use crate::kairos::time::Ranges;

pub(super) fn apply(
    sampling: Sampling,
    fold: Fold,
    points: &[Sample],
    span: Span<'_>,
) -> Result<Vec<Sample>, String> {
    let mut ranges = Ranges::new(sampling.duration, sampling.align, span.start_ms, span.zone);
    if fold == Fold::Gaps {
        return gaps(&mut ranges, points, span);
    }
    let known: Vec<(i64, f64)> = points.iter().filter_map(|(ms, value)| Some((*ms, (*value)?))).collect();
    let mut made = Vec::new();
    let mut rest = &known[..];
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
        made.push((at, Some(value(fold, group))));
    }
    Ok(made)
}

/// The value of a range. It has at least one point.
fn value(fold: Fold, group: &[(i64, f64)]) -> f64 {
    let values = || group.iter().map(|(_, value)| *value);
    let count = group.len() as f64;
    match fold {
        Fold::Sum => values().sum(),
        Fold::Min => values().fold(f64::INFINITY, f64::min),
        Fold::Max => values().fold(f64::NEG_INFINITY, f64::max),
        Fold::Avg => values().sum::<f64>() / count,
        Fold::Dev(around) => {
            let dev = deviation(group);
            around.map_or(dev, |factor| values().sum::<f64>() / count + factor * dev)
        }
        Fold::Count => count,
        Fold::Last => group[group.len() - 1].1,
        Fold::Percentile(quantile) => percentile(quantile, values().collect()),
        Fold::First | Fold::LeastSquares | Fold::Gaps => group[0].1,
    }
}

/// The deviation of a sample; 0 of a single point.
fn deviation(group: &[(i64, f64)]) -> f64 {
    if group.len() < 2 {
        return 0.0;
    }
    // Welford's: a sum of squares would lose the digits of values that are large and close together.
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for (_, value) in group {
        count += 1.0;
        let delta = value - mean;
        mean += delta / count;
        squares += delta * (value - mean);
    }
    (squares / (count - 1.0)).max(0.0).sqrt()
}

/// At position `quantile`·(n+1) of the sorted values, linear between neighbours.
fn percentile(quantile: f64, mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let position = quantile * (values.len() + 1) as f64;
    let below = position.floor();
    if below < 1.0 {
        return values[0];
    }
    let at = below as usize;
    match values.get(at) {
        None => values[values.len() - 1],
        Some(above) => {
            let lower = values[at - 1];
            lower + (position - below) * (above - lower)
        }
    }
}

/// One or two points pass. Of more, the fitted line's values at the first and the last time.
fn least_squares(group: &[(i64, f64)], made: &mut Vec<Sample>) {
    if group.len() <= 2 {
        made.extend(group.iter().map(|(ms, value)| (*ms, Some(*value))));
        return;
    }
    // Times from the first on, so that their squares keep all digits.
    let origin = group[0].0;
    let count = group.len() as f64;
    let x = |ms: i64| (ms - origin) as f64;
    let mean_x = group.iter().map(|(ms, _)| x(*ms)).sum::<f64>() / count;
    let mean_y = group.iter().map(|(_, value)| value).sum::<f64>() / count;
    let xx: f64 = group.iter().map(|(ms, _)| (x(*ms) - mean_x).powi(2)).sum();
    let xy: f64 = group.iter().map(|(ms, value)| (x(*ms) - mean_x) * (value - mean_y)).sum();
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    for (ms, _) in [group[0], group[group.len() - 1]] {
        made.push((ms, Some(mean_y + slope * (x(ms) - mean_x))));
    }
}

/// All points, and one without a value at the start of each range that has none.
fn gaps(ranges: &mut Ranges, points: &[Sample], span: Span<'_>) -> Result<Vec<Sample>, String> {
    let mut made = Vec::new();
    let mut rest = points;
    let mut at = span.start_ms;
    while at <= span.end_ms {
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
    made.extend_from_slice(rest);
    Ok(made)
}
