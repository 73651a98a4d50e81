//! `percentileOfSeries`: the percentile n of the series in each slot.

use crate::aggregate::percentile;
use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::grid::Grid;
use crate::number::general;
use crate::rows;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "percentileOfSeries",
    Group::Combine,
    &[
        SERIES,
        Param::new("n", Kind::Float),
        Param::new("interpolate", Kind::Boolean).default(Default::Boolean(false)),
    ],
    percentile_of_series,
)
.about("The percentile n of the series in each slot.", "percentileOfSeries(host.*.latency, 95)")];

fn percentile_of_series(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let (n, interpolate) = (args.float(1), args.flag(2));
    if n <= 0.0 || n.is_nan() {
        return Err("the argument n must be greater than 0".into());
    }
    let series = args.series(0);
    let (Some(grid), Some(first)) = (Grid::of(&series)?, series.first()) else {
        return Ok(Vec::new().into());
    };
    context.count_points(grid.len)?;
    let name = format!("percentileOfSeries({},{})", first.path_expression, general(n));
    let values = rows::gathered(&series, &grid, context.pace(), |row| {
        percentile(row.iter().copied(), n, interpolate)
    })?;
    let is_whole = !interpolate && grid.is_whole(&series);
    let combined = TimeSeries::made(name, grid.times(), values, context.x_files_factor);
    Ok(vec![combined.whole(is_whole)].into())
}
