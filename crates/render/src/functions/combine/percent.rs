//! `asPercent`.

use std::collections::HashMap;

use super::divide::{ratio, zipped};
use super::path_expressions;
use crate::aggregate::Aggregate;
use crate::context::{Context, Fault};
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
            of_number(series, &number, context)
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
    let sums = rows::fold(&series, &grid, Aggregate::Sum, 0.0);
    let total = format!("sumSeries({})", path_expressions(&series));
    context.count_points(grid.len.saturating_mul(series.len()))?;
    let of_total = |series: &TimeSeries| {
        let name = format!("asPercent({},{total})", series.name);
        let values: Vec<f64> = grid.spread(series).iter().zip(&sums).map(|(v, t)| percent(*v, *t)).collect();
        let times = if series.step == grid.step && series.start == grid.start {
            series.times()
        } else {
            grid.times()
        };
        TimeSeries::made(name, times, values, context.x_files_factor)
    };
    Ok(series.iter().map(of_total).collect())
}

fn of_number(series: Vec<TimeSeries>, number: &Literal, context: &Context<'_>) -> Vec<TimeSeries> {
    let total = match number {
        Literal::Integer(number) => *number as f64,
        Literal::Float(number) => *number,
        _ => f64::NAN,
    };
    let of_total = |series: TimeSeries| {
        let name = format!("asPercent({},{})", series.name, number.python());
        let values = series.values.iter().map(|value| percent(*value, total)).collect();
        TimeSeries::made(name, series.times(), values, context.x_files_factor)
    };
    series.into_iter().map(of_total).collect()
}

/// In percent of one series, or of as many, which are matched in the order of their names.
fn of_series(
    mut series: Vec<TimeSeries>,
    mut totals: Vec<TimeSeries>,
    context: &Context<'_>,
) -> Result<Vec<TimeSeries>, Fault> {
    if totals.len() == series.len() {
        series.sort_by(|a, b| a.name.cmp(&b.name));
        totals.sort_by(|a, b| a.name.cmp(&b.name));
        return series.iter().zip(&totals).map(|(series, total)| pair(series, total, context)).collect();
    }
    let [total] = &totals[..] else {
        return Err(format!(
            "the argument total must be one series or as many as there are, {}, and has {}",
            series.len(),
            totals.len()
        )
        .into());
    };
    series.iter().map(|series| pair(series, total, context)).collect()
}

/// By groups: each series in percent of the total with the same key.
fn grouped(
    series: Vec<TimeSeries>,
    totals: Option<Vec<TimeSeries>>,
    nodes: &[Literal],
    context: &Context<'_>,
) -> Result<Vec<TimeSeries>, Fault> {
    let key = |series: &TimeSeries| node::key(series, nodes.iter());
    let groups = node::grouped(series, key);
    let of_totals = match totals {
        Some(totals) => node::grouped(totals, key),
        None => groups.clone(),
    };
    let mut order: Vec<String> = groups.iter().map(|(key, _)| key.clone()).collect();
    let mut sums = HashMap::new();
    let groups: HashMap<String, Vec<TimeSeries>> = groups.into_iter().collect();
    for (key, members) in of_totals {
        if !groups.contains_key(&key) {
            order.push(key.clone());
        }
        sums.insert(key, total(members, context)?);
    }
    let mut results = Vec::new();
    for key in order {
        match (groups.get(&key), sums.get(&key)) {
            (Some(members), Some(total)) => {
                for series in members {
                    results.push(pair(series, total, context)?);
                }
            }
            (Some(members), None) => {
                results.extend(
                    members.iter().map(|s| missing(format!("asPercent({},MISSING)", s.name), s, context)),
                );
            }
            (None, Some(total)) => {
                results.push(missing(format!("asPercent(MISSING,{})", total.name), total, context));
            }
            (None, None) => {}
        }
    }
    Ok(results)
}

/// The only series of a group, or the sum of them.
fn total(members: Vec<TimeSeries>, context: &Context<'_>) -> Result<TimeSeries, Fault> {
    if let [only] = &members[..] {
        return Ok(only.clone());
    }
    let Some(grid) = Grid::of(&members)? else { return Err("there are no series".into()) };
    let sums = rows::fold(&members, &grid, Aggregate::Sum, 0.0);
    let name = format!("sumSeries({})", path_expressions(&members));
    Ok(TimeSeries::made(name, grid.times(), sums, context.x_files_factor))
}

fn missing(name: String, like: &TimeSeries, context: &Context<'_>) -> TimeSeries {
    TimeSeries::made(name, like.times(), vec![f64::NAN; like.values.len()], context.x_files_factor)
}
