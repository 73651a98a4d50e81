//! `kolmogorovSmirnovTest2`: the probability that two series have the same distribution.

use std::f64::consts::{PI, TAU};

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::grid::Grid;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "kolmogorovSmirnovTest2",
    Group::Transform,
    &[
        Param::new("seriesA", Kind::Series),
        Param::new("seriesB", Kind::Series),
        Param::new("windowSize", Kind::Integer),
    ],
    test_two,
)
.or(&["ksTest2"])
.about(
    "The probability, by Kolmogorov and Smirnov's test, that the last points of two series have the same distribution.",
    "ksTest2(server.latency, timeShift(server.latency, '1d'), 60)",
)];

fn test_two(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    /// The longest window. Each result reads the whole window.
    const WINDOW_MAX: usize = 10_000;
    let size = usize::try_from(args.int(2)).ok().filter(|size| (1..=WINDOW_MAX).contains(size));
    let size = size.ok_or_else(|| format!("the argument windowSize must be from 1 to {WINDOW_MAX}"))?;
    let (first, second) = (args.series(0), args.series(1));
    if first.is_empty() || second.is_empty() {
        return Ok(Vec::new().into());
    }
    let ([a], [b]) = (&first[..], &second[..]) else {
        return Err(format!("needs two series, but got {} and {}", first.len(), second.len()).into());
    };
    let Some(grid) = Grid::of([a, b])? else { return Ok(Vec::new().into()) };
    context.count_points(grid.len.saturating_mul(size))?;
    let (x, y) = (grid.spread(a), grid.spread(b));
    let mut values = vec![f64::NAN; grid.len];
    let mut pace = context.pace();
    for (at, value) in values.iter_mut().enumerate().skip(size) {
        pace.step(size)?;
        let window = at + 1 - size..=at;
        *value = probability(sorted(&x[window.clone()]), sorted(&y[window]));
    }
    let name = format!("kolmogorovSmirnovTest2({},{},{size})", a.name, b.name);
    let mut tested = TimeSeries::made(name, grid.times(), values, context.x_files_factor);
    tested.tags = a.tags.clone();
    Ok(vec![tested].into())
}

/// The known values, sorted.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut known: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    known.sort_unstable_by(f64::total_cmp);
    known
}

/// The probability of a distance between the distributions at least as large, if both were the same.
fn probability(a: Vec<f64>, b: Vec<f64>) -> f64 {
    if a.is_empty() || b.is_empty() {
        return f64::NAN;
    }
    let share = |sorted: &[f64], value: f64| {
        sorted.partition_point(|other| *other <= value) as f64 / sorted.len() as f64
    };
    let distance = |value: &f64| (share(&a, *value) - share(&b, *value)).abs();
    let largest = a.iter().chain(&b).map(distance).fold(0.0, f64::max);
    let (n, m) = (a.len() as f64, b.len() as f64);
    tail((n * m / (n + m)).sqrt() * largest)
}

/// The tail of Kolmogorov's distribution above `z`. There are two infinite series for it; one converges fast
/// below about 1.2, the other above.
fn tail(z: f64) -> f64 {
    if z == 0.0 {
        1.0
    } else if z < 1.18 {
        let y = (-PI * PI / 8.0 / (z * z)).exp();
        1.0 - TAU.sqrt() / z * (y + y.powi(9) + y.powi(25) + y.powi(49))
    } else {
        let x = (-2.0 * z * z).exp();
        2.0 * (x - x.powi(4) + x.powi(9))
    }
}
