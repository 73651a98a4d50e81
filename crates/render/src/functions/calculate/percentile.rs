//! `nPercentile`: draws a line at the percentile n of each series.

use crate::aggregate::percentile;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::{general, python_float};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] =
    &[Function::new("nPercentile", Group::Calculate, &[SERIES, Param::new("n", Kind::Float)], n_percentile)
        .about("Draws a line at the percentile n of each series.", "nPercentile(server.latency, 95)")];

fn n_percentile(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let n = args.float(1);
    if n == 0.0 || n.is_nan() {
        return Err("the argument n must not be 0".into());
    }
    let line = |mut series: TimeSeries| {
        let value = percentile(series.values.iter().copied(), n, false);
        if value.is_nan() {
            return None;
        }
        series.tags.set("nPercentile", python_float(n));
        let count = usize::try_from((series.end - series.start) / series.step).unwrap_or(0);
        let name = format!("nPercentile({}, {})", series.name, general(n));
        let is_whole = series.is_whole;
        Some(series.derived(name, vec![value; count]).whole(is_whole))
    };
    Ok(args.series(0).into_iter().filter_map(line).collect::<Vec<_>>().into())
}
