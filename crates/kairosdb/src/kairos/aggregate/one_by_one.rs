//! Aggregators that compute each value from one point, or from a point and earlier ones.

use super::{Amount, Compare, Sample, Threshold};

pub(super) fn each(points: Vec<Sample>, change: impl Fn(Amount) -> Amount) -> Vec<Sample> {
    points.into_iter().map(|(ms, value)| (ms, value.map(&change))).collect()
}

/// A value for each point but the first, from it and the point before.
///
/// # Errors
/// If two points have the same time.
pub(super) fn pairs(
    points: &[Sample],
    name: &str,
    value: impl Fn((i64, f64), (i64, f64)) -> f64,
) -> Result<Vec<Sample>, String> {
    let known: Vec<(i64, f64)> = known(points).collect();
    let made = known.windows(2).map(|pair| {
        if pair[0].0 == pair[1].0 {
            return Err(format!(
                "The {name} aggregator cannot compute a rate for points of the same time; put another aggregator, \
                 such as sum, in front of it."
            ));
        }
        Ok((pair[1].0, Some(Amount::from(value(pair[0], pair[1])))))
    });
    made.collect()
}

pub(super) fn diff(points: &[Sample]) -> Vec<Sample> {
    let known: Vec<(i64, f64)> = known(points).collect();
    known.windows(2).map(|pair| (pair[1].0, Some(Amount::from(pair[1].1 - pair[0].1)))).collect()
}

/// The moving mean of `size` points. The values are divided into blocks of `size`, so each window is the end
/// of one block and the beginning of the next, whose sums are computed once. In this way the work does not
/// grow with `size`, and nothing is subtracted, because subtraction would lose digits.
pub(super) fn sma(points: &[Sample], size: usize) -> Vec<Sample> {
    let known: Vec<(i64, f64)> = known(points).collect();
    if size == 0 || known.len() < size {
        return Vec::new();
    }
    // For each value: the sum from it to the end of its block, and the sum from the beginning of its block to it.
    let mut ends: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let mut beginnings = ends.clone();
    ends.chunks_mut(size).for_each(|block| add_up(block.iter_mut().rev()));
    beginnings.chunks_mut(size).for_each(|block| add_up(block.iter_mut()));
    let mean = |last: usize| {
        let first = last + 1 - size;
        let sum = if first.is_multiple_of(size) { ends[first] } else { ends[first] + beginnings[last] };
        sum / size as f64
    };
    let last = known.iter().enumerate().skip(size - 1);
    last.map(|(last, (ms, _))| (*ms, Some(Amount::from(mean(last))))).collect()
}

/// Replaces each value by the sum of all values up to it.
fn add_up<'a>(values: impl Iterator<Item = &'a mut f64>) {
    let mut sum = 0.0;
    for value in values {
        sum += *value;
        *value = sum;
    }
}

pub(super) fn trim(mut points: Vec<Sample>, first: bool, last: bool) -> Vec<Sample> {
    if last {
        points.pop();
    }
    if first && !points.is_empty() {
        points.remove(0);
    }
    points
}

/// Drops the points that match.
pub(super) fn filter(mut points: Vec<Sample>, compare: Compare, threshold: f64) -> Vec<Sample> {
    let matches = |value: f64| match compare {
        Compare::Lt => value < threshold,
        Compare::Lte => value <= threshold,
        Compare::Gt => value > threshold,
        Compare::Gte => value >= threshold,
        Compare::Equal => value == threshold,
        Compare::Ne => value != threshold,
    };
    points.retain(|(_, value)| !value.is_some_and(|one| matches(one.value)));
    points
}

/// The number of thresholds that a value has passed, or with `descending`, the number that it has not. The
/// thresholds are in ascending order.
pub(super) fn score(value: f64, thresholds: &[Threshold], descending: bool) -> f64 {
    let passes = |threshold: &Threshold| {
        value > threshold.value || (value == threshold.value && threshold.is_inferior)
    };
    let passed = thresholds.iter().take_while(|threshold| passes(threshold)).count();
    (if descending { thresholds.len() - passed } else { passed }) as f64
}

fn known(points: &[Sample]) -> impl Iterator<Item = (i64, f64)> + '_ {
    points.iter().filter_map(|(ms, value)| Some((*ms, (*value)?.value)))
}
