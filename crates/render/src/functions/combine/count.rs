//! `countSeries`: draws a line at the number of series. Unknown points count too.

use super::paths::path_expressions;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::functions::special::constant_line;
use crate::grid::Grid;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "countSeries",
    Group::Combine,
    &[Param::new("seriesLists", Kind::Series).optional().many()],
    count,
)
.callback()
.about("Draws a line at the number of series. Unknown points count too.", "countSeries(host.*.cpu)")];

fn count(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    if args.count(0) == 0 {
        let mut line = constant_line(0.0, "0".to_owned(), context).whole(true);
        line.path_expression = "countSeries()".into();
        return Ok(vec![line].into());
    }
    let series = args.series(0);
    let Some(grid) = Grid::of(&series)? else { return Ok(Vec::new().into()) };
    context.count_points(grid.len)?;
    let name = format!("countSeries({})", path_expressions(&series));
    let values = vec![series.len() as f64; grid.len];
    let line = TimeSeries::made(name, grid.times(), values, context.x_files_factor);
    Ok(vec![line.whole(true)].into())
}
