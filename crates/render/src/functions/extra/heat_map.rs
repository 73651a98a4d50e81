//! `heatMap`: turns cumulative buckets of a histogram into separate ones. Sorts the series by their first
//! points, and subtracts from each the one before it.

use crate::context::Context;
use crate::function::{Args, Function, Group, Outcome, SERIES};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] =
    &[Function::new("heatMap", Group::Transform, &[SERIES], heat_map).about(
        "Turns cumulative buckets of a histogram into separate ones: sorts the series by their first points, and subtracts from each the one before it.",
        "heatMap(server.latency.le_*)",
    )];

fn heat_map(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let mut series = args.series(0);
    if let Some(first) = series.first() {
        let shape = |series: &TimeSeries| (series.times(), series.values.len());
        if let Some(other) = series.iter().find(|other| shape(other) != shape(first)) {
            return Err(format!("{} and {} have points at different times", first.name, other.name).into());
        }
    }
    sort(&mut series);
    let between = |pair: &[TimeSeries]| {
        let (lower, upper) = (&pair[0], &pair[1]);
        let values = upper.values.iter().zip(lower.values.iter()).map(|(upper, lower)| upper - lower);
        let name = format!("heatMap({},{})", upper.name, lower.name);
        upper.clone().derived(name, values.collect())
    };
    Ok(series.windows(2).map(between).collect::<Vec<_>>().into())
}

/// Sorts series by the sum of the first points that are known in all of them.
fn sort(series: &mut [TimeSeries]) {
    const POINTS: usize = 5;
    let len = series.first().map_or(0, |first| first.values.len());
    let is_known = |at: &usize| series.iter().all(|series| !series.values[*at].is_nan());
    let first: Vec<usize> = (0..len).filter(is_known).take(POINTS).collect();
    let weight = |series: &TimeSeries| first.iter().fold(0.0, |sum, at| sum + series.values[*at]);
    series.sort_by(|a, b| weight(a).total_cmp(&weight(b)));
}
