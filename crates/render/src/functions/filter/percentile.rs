//! Functions that return the series outside of percentiles.

use crate::aggregate::{Aggregate, percentile};
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};

const N: &[Param] = &[SERIES, Param::new("n", Kind::Float)];

pub(super) const ALL: &[Function] = &[
    Function::new("averageOutsidePercentile", Group::FilterSeries, N, average_outside).about(
        "Returns the series whose mean is outside of the percentiles n and 100 - n.",
        "averageOutsidePercentile(host.*.load, 95)",
    ),
    Function::new("removeBetweenPercentile", Group::FilterSeries, N, remove_between).about(
        "Returns the series with a point outside of the percentiles n and 100 - n of its slot.",
        "removeBetweenPercentile(host.*.load, 95)",
    ),
];

/// The upper percentile. The lower one is 100 less this number.
fn upper(args: &Args) -> f64 {
    let n = args.float(1);
    if n < 50.0 { 100.0 - n } else { n }
}

fn average_outside(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let n = upper(args);
    let mut series = args.series(0);
    let average = |values: &[f64]| Aggregate::Average.of(values);
    let averages: Vec<f64> = series.iter().map(|series| average(&series.values)).collect();
    let (low, high) =
        (percentile(averages.iter().copied(), 100.0 - n, false), percentile(averages, n, false));
    series.retain(|series| {
        let average = average(&series.values);
        !(low < average && average < high)
    });
    Ok(series.into())
}

fn remove_between(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let n = upper(args);
    let mut series = args.series(0);
    let slots = series.iter().map(|series| series.values.len()).min().unwrap_or(0);
    let limits = |slot: usize| {
        let values = || series.iter().map(|series| series.values[slot]);
        (percentile(values(), 100.0 - n, false), percentile(values(), n, false))
    };
    let limits: Vec<(f64, f64)> = (0..slots).map(limits).collect();
    let is_outside = |(value, (low, high)): (&f64, &(f64, f64))| value <= low || value >= high;
    series.retain(|series| series.values.iter().zip(&limits).any(is_outside));
    Ok(series.into())
}
