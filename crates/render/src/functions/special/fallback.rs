//! `fallbackSeries`: returns the fallback if there are no series.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};

pub(super) const ALL: &[Function] = &[Function::new(
    "fallbackSeries",
    Group::Special,
    &[SERIES, Param::new("fallback", Kind::Series)],
    fallback_series,
)
.about("Returns the fallback if there are no series.", "fallbackSeries(server.errors, constantLine(0))")];

fn fallback_series(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let series = args.series(0);
    Ok(if series.is_empty() { args.series(1) } else { series }.into())
}
