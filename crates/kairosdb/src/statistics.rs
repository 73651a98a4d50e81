//! Statistics that both protocols use.

/// The sum of values as a loop in Java computes it. It starts at 0.0, so the sum of a single -0.0 is 0.0.
pub(crate) fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// The sum of the squared distances of values from their mean.
pub(crate) fn squares(values: impl Iterator<Item = f64>) -> f64 {
    // Welford's algorithm: a sum of squares would lose digits of values that are large and close together.
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        let delta = value - mean;
        mean += delta / count;
        squares += delta * (value - mean);
    }
    squares
}

/// The value at a position of the sorted values, of which there is at least one. The first value is at position 1.
/// Between two values it is interpolated linearly. Before the first and after the last value it is that value. Sorts
/// the values.
pub(crate) fn at_position(values: &mut [f64], position: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
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
