//! `powSeries`: the first series to the power of the second, and so on.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::functions::transform::power;
use crate::grid::Grid;
use crate::rows;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "powSeries",
    Group::Combine,
    &[Param::new("seriesList", Kind::Series).many()],
    pow_series,
)
.callback()
.about("The first series to the power of the second, and so on.", "powSeries(base.value, exponent.value)")];

fn pow_series(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let series = args.series(0);
    let Some(grid) = Grid::of(&series)? else { return Ok(Vec::new().into()) };
    context.count_points(grid.len)?;
    let names: Vec<&str> = series.iter().map(|s| &*s.name).collect();
    let name = format!("powSeries({})", names.join(","));
    let values = rows::gathered(&series, &grid, context.pace(), |row| {
        row.iter().copied().reduce(power).unwrap_or(f64::NAN)
    })?;
    Ok(vec![TimeSeries::made(name, grid.times(), values, context.x_files_factor)].into())
}
