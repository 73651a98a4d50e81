//! Functions that combine series that differ only in some components.

use super::aggregate::combined;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::node;
use crate::series::TimeSeries;

const POSITION: Param = Param::new("position", Kind::Node).optional().many();

pub(super) const ALL: &[Function] = &[
    Function::new(
        "aggregateWithWildcards",
        Group::Combine,
        &[SERIES, Param::new("func", Kind::AggFunc), POSITION],
        |args, context| {
            let method = args.text(1).to_owned();
            aggregated(args, context, &method, 2)
        },
    )
    .about(
        "Combines series whose names differ only in the given components.",
        "aggregateWithWildcards(host.*.cpu.*, 'sum', 3)",
    ),
    Function::new("sumSeriesWithWildcards", Group::Combine, &[SERIES, POSITION], |a, c| {
        aggregated(a, c, "sum", 1)
    })
    .callback()
    .about(
        "Adds series whose names differ only in the given components.",
        "sumSeriesWithWildcards(host.*.cpu.*, 1)",
    ),
    Function::new("averageSeriesWithWildcards", Group::Combine, &[SERIES, POSITION], |a, c| {
        aggregated(a, c, "average", 1)
    })
    .callback()
    .about(
        "The mean of series whose names differ only in the given components.",
        "averageSeriesWithWildcards(host.*.cpu.*, 1)",
    ),
    Function::new("multiplySeriesWithWildcards", Group::Combine, &[SERIES, POSITION], |a, c| {
        aggregated(a, c, "multiply", 1)
    })
    .callback()
    .about(
        "Multiplies series whose names differ only in the given components.",
        "multiplySeriesWithWildcards(shop.*.{price,sold}, 2)",
    ),
];

fn aggregated(args: &mut Args, context: &mut Context<'_>, method: &str, positions: usize) -> Outcome {
    let without: Vec<i64> = args.literals(positions).filter_map(|node| node.python().parse().ok()).collect();
    let key = |series: &TimeSeries| {
        let components = (0i64..).zip(series.name.split('.')).filter(|(at, _)| !without.contains(at));
        components.map(|(_, component)| component).collect::<Vec<_>>().join(".")
    };
    let mut results = Vec::new();
    for (key, members) in node::grouped(args.series(0), key) {
        if let Some(mut series) = combined(members, method, None, context)? {
            series.name = key.into();
            results.push(series);
        }
    }
    Ok(results.into())
}
