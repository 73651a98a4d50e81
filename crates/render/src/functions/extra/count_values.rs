//! `countValues`: for each whole value, the number of series that have it in each slot. Returns one series
//! valuesLimitReached if there are more values than the limit.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::grid::Grid;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "countValues",
    Group::Combine,
    &[SERIES, Param::new("valuesLimit", Kind::Integer).default(Default::Integer(32))],
    count_values,
)
.about(
    "For each whole value, the number of series that have it in each slot. Returns one series valuesLimitReached if there are more values than the limit.",
    "countValues(host.*.state)",
)];

fn count_values(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let limit = usize::try_from(args.int(1)).unwrap_or(0);
    let series = args.series(0);
    let Some(grid) = Grid::of(&series)? else { return Ok(Vec::new().into()) };
    let named = |name: String, counts: Vec<f64>| {
        let (start, end, step) = grid.times();
        TimeSeries { start, end, step, ..series[0].clone().derived(name, counts) }
    };
    let mut counts: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for series in &series {
        for (at, value) in grid.spread(series).iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            let value = *value as i64;
            if !counts.contains_key(&value) {
                if counts.len() >= limit {
                    return Ok(vec![named("valuesLimitReached".to_owned(), vec![0.0; grid.len])].into());
                }
                context.count_points(grid.len)?;
                counts.insert(value, vec![0.0; grid.len]);
            }
            if let Some(counts) = counts.get_mut(&value) {
                counts[at] += 1.0;
            }
        }
    }
    Ok(counts.into_iter().map(|(value, counts)| named(value.to_string(), counts)).collect::<Vec<_>>().into())
}
