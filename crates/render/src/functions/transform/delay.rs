//! `delay`: moves every point by a number of steps. A positive number moves to later times. Unlike in
//! graphite-web, 0 steps change nothing.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] =
    &[Function::new("delay", Group::Transform, &[SERIES, Param::new("steps", Kind::Integer)], delay).about(
        "Moves every point by a number of steps. A positive number moves to later times.",
        "delay(server.requests, 3)",
    )];

fn delay(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let steps = args.int(1);
    let by = usize::try_from(steps.unsigned_abs()).unwrap_or(usize::MAX);
    let moved = |mut series: TimeSeries| {
        series.tags.set("delay", steps.to_string());
        let len = series.values.len();
        let by = by.min(len);
        let mut values = vec![f64::NAN; len];
        if steps < 0 {
            values[..len - by].copy_from_slice(&series.values[by..]);
        } else {
            values[by..].copy_from_slice(&series.values[..len - by]);
        }
        let name = format!("delay({},{steps})", series.name);
        let is_whole = series.is_whole;
        series.derived(name, values).whole(is_whole)
    };
    Ok(args.series(0).into_iter().map(moved).collect::<Vec<_>>().into())
}
