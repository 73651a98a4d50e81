//! Functions that return the first series, in their order or sorted by an aggregate.

use std::cmp::Ordering;

use crate::aggregate::Aggregate;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

const N: &[Param] = &[SERIES, Param::new("n", Kind::Integer)];
const BY: &[Param] = &[
    SERIES,
    Param::new("n", Kind::Integer).default(Default::Integer(1)),
    Param::new("func", Kind::AggFunc).default(Default::Text("average")),
];

pub(super) const ALL: &[Function] = &[
    Function::new("limit", Group::FilterSeries, N, |args, _| {
        let n = args.int(1);
        Ok(first(args.series(0), n).into())
    })
    .about("Returns the first n series.", "limit(host.*.load, 10)"),
    Function::new("highest", Group::FilterSeries, BY, |args, _| {
        let (method, _) = args.aggregate(2)?;
        ranked(args, method, Order::Down)
    })
    .about("Returns the n series with the largest aggregate.", "highest(host.*.load, 5, 'max')"),
    Function::new("lowest", Group::FilterSeries, BY, |args, _| {
        let (method, _) = args.aggregate(2)?;
        ranked(args, method, Order::Up)
    })
    .about("Returns the n series with the smallest aggregate.", "lowest(host.*.free, 5, 'min')"),
    Function::new("highestAverage", Group::FilterSeries, N, |args, _| {
        ranked(args, Aggregate::Average, Order::Down)
    })
    .about("Returns the n series with the largest mean.", "highestAverage(host.*.load, 5)"),
    Function::new("highestCurrent", Group::FilterSeries, N, |args, _| {
        ranked(args, Aggregate::Last, Order::Down)
    })
    .about("Returns the n series with the largest last value.", "highestCurrent(host.*.load, 5)"),
    Function::new("highestMax", Group::FilterSeries, N, |args, _| ranked(args, Aggregate::Max, Order::Down))
        .about("Returns the n series with the largest maximum.", "highestMax(host.*.load, 5)"),
    Function::new("highestMin", Group::FilterSeries, N, |args, _| ranked(args, Aggregate::Min, Order::Down))
        .about("Returns the n series with the largest minimum.", "highestMin(host.*.load, 5)"),
    Function::new("lowestAverage", Group::FilterSeries, N, |args, _| {
        ranked(args, Aggregate::Average, Order::Up)
    })
    .about("Returns the n series with the smallest mean.", "lowestAverage(host.*.free, 5)"),
    Function::new("lowestCurrent", Group::FilterSeries, N, |args, _| {
        ranked(args, Aggregate::Last, Order::Up)
    })
    .about("Returns the n series with the smallest last value.", "lowestCurrent(host.*.free, 5)"),
    Function::new("lowestMax", Group::FilterSeries, N, |args, _| ranked(args, Aggregate::Max, Order::Up))
        .about("Returns the n series with the smallest maximum.", "lowestMax(host.*.free, 5)"),
    Function::new("lowestMin", Group::FilterSeries, N, |args, _| ranked(args, Aggregate::Min, Order::Up))
        .about("Returns the n series with the smallest minimum.", "lowestMin(host.*.free, 5)"),
];

/// Ascending or descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Up,
    Down,
}

/// The first `n` series. If `n` is negative, all but the last `-n`.
pub(super) fn first(mut series: Vec<TimeSeries>, n: i64) -> Vec<TimeSeries> {
    let count = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
    series.truncate(if n < 0 { series.len().saturating_sub(count) } else { count });
    series
}

/// Sorts series by a key. The sort is stable.
pub(super) fn sort(series: &mut Vec<TimeSeries>, order: Order, key: impl Fn(&TimeSeries) -> f64) {
    let mut keyed: Vec<(f64, TimeSeries)> = series.drain(..).map(|series| (key(&series), series)).collect();
    let compare = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
    match order {
        Order::Up => keyed.sort_by(|(a, _), (b, _)| compare(*a, *b)),
        Order::Down => keyed.sort_by(|(a, _), (b, _)| compare(*b, *a)),
    }
    series.extend(keyed.into_iter().map(|(_, series)| series));
}

fn ranked(args: &mut Args, method: Aggregate, order: Order) -> Outcome {
    let n = args.int(1);
    let mut series = args.series(0);
    sort(&mut series, order, |series| method.key(&series.values));
    Ok(first(series, n).into())
}
