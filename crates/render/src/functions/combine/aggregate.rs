//! `aggregate` and its short forms.

use std::sync::Arc;

use super::paths::path_expressions;
use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::grid::Grid;
use crate::rows;
use crate::series::{Consolidation, DrawOptions, TimeSeries};
use crate::tags::Tags;

pub(crate) const SERIES_LISTS: &[Param] = &[Param::new("seriesLists", Kind::Series).many()];

pub(super) const ALL: &[Function] = &[
    Function::new(
        "aggregate",
        Group::Combine,
        &[SERIES, Param::new("func", Kind::AggFunc), Param::new("xFilesFactor", Kind::Float).optional()],
        aggregate,
    )
    .about("Combines series slot by slot with an aggregation function.", "aggregate(host.*.cpu, 'max')"),
    Function::new("sumSeries", Group::Combine, SERIES_LISTS, |a, c| all(a, c, "sum"))
        .or(&["sum"])
        .callback()
        .about("Adds series slot by slot.", "sumSeries(host.*.requests)"),
    Function::new("averageSeries", Group::Combine, SERIES_LISTS, |a, c| all(a, c, "average"))
        .or(&["avg"])
        .callback()
        .about("The mean of series in each slot.", "averageSeries(host.*.cpu)"),
    Function::new("stddevSeries", Group::Combine, SERIES_LISTS, |a, c| all(a, c, "stddev"))
        .callback()
        .about("The standard deviation of series in each slot.", "stddevSeries(host.*.cpu)"),
    Function::new("minSeries", Group::Combine, SERIES_LISTS, |a, c| all(a, c, "min"))
        .callback()
        .about("The smallest value of series in each slot.", "minSeries(host.*.free)"),
    Function::new("maxSeries", Group::Combine, SERIES_LISTS, |a, c| all(a, c, "max"))
        .callback()
        .about("The largest value of series in each slot.", "maxSeries(host.*.cpu)"),
    Function::new("rangeOfSeries", Group::Combine, SERIES_LISTS, |a, c| all(a, c, "rangeOf"))
        .callback()
        .about(
            "The difference between the largest and the smallest value in each slot.",
            "rangeOfSeries(host.*.cpu)",
        ),
    Function::new("diffSeries", Group::Combine, SERIES_LISTS, |a, c| all(a, c, "diff")).callback().about(
        "Subtracts all other series from the first known value of each slot.",
        "diffSeries(total.requests, cached.requests)",
    ),
    Function::new("multiplySeries", Group::Combine, SERIES_LISTS, multiply).callback().about(
        "The product of series in each slot. It is unknown if one of them is.",
        "multiplySeries(price, amount)",
    ),
];

fn aggregate(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let name = args.text(1).to_owned();
    let factor = args.given_float(2);
    Ok(combined(args.series(0), &name, factor, context)?.into_iter().collect::<Vec<_>>().into())
}

/// Combines all series of all arguments.
pub(crate) fn all(args: &mut Args, context: &mut Context<'_>, method: &str) -> Outcome {
    Ok(combined(args.series(0), method, None, context)?.into_iter().collect::<Vec<_>>().into())
}

/// As in graphite-web, a single series is returned as it is.
fn multiply(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let is_single_list = args.count(0) == 1;
    let series = args.series(0);
    if is_single_list && series.len() == 1 {
        return Ok(series.into());
    }
    Ok(combined(series, "multiply", None, context)?.into_iter().collect::<Vec<_>>().into())
}

/// Combines series into one that is named after their path expressions. `None` if there are no series.
pub(crate) fn combined(
    series: Vec<TimeSeries>,
    method: &str,
    factor: Option<f64>,
    context: &Context<'_>,
) -> Result<Option<TimeSeries>, Fault> {
    let method = method.strip_suffix("Series").unwrap_or(method);
    let Some(aggregate) = Aggregate::named(method) else {
        return Err(format!("{method:?} is not an aggregation function").into());
    };
    let Some(grid) = Grid::of(&series)? else { return Ok(None) };
    context.count_points(grid.len)?;
    let factor = factor.unwrap_or(context.x_files_factor);
    let values = rows::fold(&series, &grid, aggregate, factor, context.pace())?;
    let name: Arc<str> = format!("{method}Series({})", path_expressions(&series)).into();
    let mut tags = Tags::common(series.iter().map(|s| &s.tags));
    if tags.get("name").is_none() {
        tags.set("name", &*name);
    }
    tags.set("aggregatedBy", method);
    Ok(Some(TimeSeries {
        path_expression: Arc::clone(&name),
        name,
        start: grid.start,
        end: grid.end,
        step: grid.step,
        values: Arc::new(values),
        consolidation: Consolidation::default(),
        x_files_factor: factor,
        tags,
        options: DrawOptions::default(),
        is_whole: aggregate.is_whole(grid.is_whole(&series), series.len()),
    }))
}
