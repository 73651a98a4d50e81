//! `asPercent`: each series in percent of a total. The total is a number, one series, one series for each, or
//! the sum of all series.

use std::collections::HashMap;

use super::divide::{by_index, ratio, zipped};
use super::paths::path_expressions;
use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES, Value};
use crate::grid::Grid;
use crate::node;
use crate::rows;
use crate::series::TimeSeries;
use crate::target::Literal;

pub(super) const ALL: &[Function] = &[Function::new(
    "asPercent",
    Group::Combine,
    &[
        SERIES,
        Param::new("total", Kind::Any).optional(),
        Param::new("nodes", Kind::NodeOrTag).optional().many(),
    ],
    as_percent,
)
.or(&["pct"])
.callback()
.about(
    "Each series in percent of a total: a number, a series, as many series, or the sum of all.",
    "asPercent(host.*.used, host.*.size)",
)];

fn as_percent(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let series = args.series(0);
    if series.is_empty() {
        return Ok(Vec::new().into());
    }
    let nodes: Vec<Literal> = args.literals(2).cloned().collect();
    let results = match args.value(1) {
        None | Some(Value::Literal(Literal::None)) if nodes.is_empty() => of_sum(series, context)?,
        None | Some(Value::Literal(Literal::None)) => grouped(series, None, &nodes, context)?,
        Some(Value::Series(totals)) if nodes.is_empty() => of_series(series, totals, context)?,
        Some(Value::Series(totals)) => grouped(series, Some(totals), &nodes, context)?,
        Some(Value::Literal(number @ (Literal::Integer(_) | Literal::Float(_)))) if nodes.is_empty() => {
            of_number(&series, &number, context)?
        }
        Some(_) => {
            return Err(
                "the argument total must be series or a number, and series when there are nodes".into()
            );
        }
    };
    Ok(results.into())
}

fn percent(value: f64, total: f64) -> f64 {
    ratio(value, total) * 100.0
}

/// A series in percent of another.
fn pair(series: &TimeSeries, total: &TimeSeries, context: &Context<'_>) -> Result<TimeSeries, Fault> {
    zipped(format!("asPercent({},{})", series.name, total.name), series, total, context, percent)
}

fn of_sum(series: Vec<TimeSeries>, context: &Context<'_>) -> Result<Vec<TimeSeries>, Fault> {
    let Some(grid) = Grid::of(&series)? else { return Ok(Vec::new()) };
    let sums = rows::fold(&series, &grid, Aggregate::Sum, 0.0, context.pace())?;
    let name = format!("sumSeries({})", path_expressions(&series));
    of_total(&series, (&name, &sums), &grid, context)
}

/// Each series in percent of a column on the grid. As in graphite-web, the result has the times of the series,
/// even if its values are in a longer step (docs/decisions/alignment.md).
fn of_total(
    series: &[TimeSeries],
    (total, column): (&str, &[f64]),
    grid: &Grid,
    context: &Context<'_>,
) -> Result<Vec<TimeSeries>, Fault> {
    context.may_hold_names(series.len(), total.len())?;
    let share = |series: &TimeSeries| {
        let values = by_index(&grid.align(series), column, context, percent)?;
        let name = format!("asPercent({},{total})", series.name);
        Ok(TimeSeries::made(name, series.times(), values, context.x_files_factor))
    };
    series.iter().map(share).collect()
}

/// Each series in percent of a number. As in graphite-web, the number has as many slots as the first series.
fn of_number(
    series: &[TimeSeries],
    number: &Literal,
    context: &Context<'_>,
) -> Result<Vec<TimeSeries>, Fault> {
    let total = match number {
        Literal::Integer(number) => *number as f64,
        Literal::Float(number) => *number,
        _ => f64::NAN,
    };
    let Some(grid) = Grid::of(series)? else { return Ok(Vec::new()) };
    let column = vec![total; series.first().map_or(0, |series| series.values.len())];
    of_total(series, (&number.python(), &column), &grid, context)
}

/// Each series in percent of one total, or of as many totals as there are series. In the second case, series
/// and totals are matched in the order of their names.
fn of_series(
    mut series: Vec<TimeSeries>,
    mut totals: Vec<TimeSeries>,
    context: &Context<'_>,
) -> Result<Vec<TimeSeries>, Fault> {
    if totals.len() == series.len() {
        series.sort_by(|a, b| a.name.cmp(&b.name));
        totals.sort_by(|a, b| a.name.cmp(&b.name));
        let longest = totals.iter().map(|total| total.name.len()).max().unwrap_or(0);
        context.may_hold_names(totals.len(), longest)?;
        return series.iter().zip(&totals).map(|(series, total)| pair(series, total, context)).collect();
    }
    let [total] = &totals[..] else {
        return Err(format!(
            "the argument total must be one series or as many as the first argument, {}, but has {}",
            series.len(),
            totals.len()
        )
        .into());
    };
    let Some(grid) = Grid::of(series.iter().chain([total]))? else { return Ok(Vec::new()) };
    of_total(&series, (&total.name, &grid.align(total)), &grid, context)
}

/// Each series in percent of the total with the same key.
fn grouped(
    series: Vec<TimeSeries>,
    totals: Option<Vec<TimeSeries>>,
    nodes: &[Literal],
    context: &Context<'_>,
) -> Result<Vec<TimeSeries>, Fault> {
    let Some(grid) = Grid::of(&series)? else { return Ok(Vec::new()) };
    let key = |series: &TimeSeries| node::key(series, nodes.iter());
    let groups = node::grouped(series, key);
    let of_totals = match totals {
        Some(totals) => node::grouped(totals, key),
        None => groups.clone(),
    };
    let mut order: Vec<String> = groups.iter().map(|(key, _)| key.clone()).collect();
    let mut sums = HashMap::new();
    let groups: HashMap<String, Vec<TimeSeries>> = groups.into_iter().collect();
    // As in graphite-web, a result without a counterpart has the times of the result before it.
    let mut times = None;
    for (key, members) in of_totals {
        if !groups.contains_key(&key) {
            order.push(key.clone());
        }
        let is_sum = members.len() > 1;
        let total = total(members, context)?;
        if is_sum {
            times = Some(total.times());
        }
        sums.insert(key, total);
    }
    let mut results = Vec::new();
    for key in order {
        match (groups.get(&key), sums.get(&key)) {
            (Some(members), Some(total)) => {
                for series in members {
                    let share = pair(series, total, context)?;
                    times = Some(share.times());
                    results.push(share);
                }
            }
            (Some(members), None) => {
                let name = |series: &TimeSeries| format!("asPercent({},MISSING)", series.name);
                let missing = |s| missing(name(s), grid.align(s).len(), times.unwrap_or(s.times()), context);
                results.extend(members.iter().map(missing));
            }
            (None, Some(total)) => {
                let name = format!("asPercent(MISSING,{})", total.name);
                results.push(missing(name, total.values.len(), times.unwrap_or(total.times()), context));
            }
            (None, None) => {}
        }
    }
    Ok(results)
}

/// The sum of a group, or its only series.
fn total(members: Vec<TimeSeries>, context: &Context<'_>) -> Result<TimeSeries, Fault> {
    if let [only] = &members[..] {
        return Ok(only.clone());
    }
    let Some(grid) = Grid::of(&members)? else { return Err("there are no series".into()) };
    let sums = rows::fold(&members, &grid, Aggregate::Sum, 0.0, context.pace())?;
    let name = format!("sumSeries({})", path_expressions(&members));
    Ok(TimeSeries::made(name, grid.times(), sums, context.x_files_factor))
}

fn missing(name: String, len: usize, times: (i64, i64, i64), context: &Context<'_>) -> TimeSeries {
    TimeSeries::made(name, times, vec![f64::NAN; len], context.x_files_factor)
}
