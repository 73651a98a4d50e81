//! `useSeriesAbove`: finds the series with a value above a threshold, and returns other series, whose names
//! result from a replacement in the names of these.

use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::pattern::Pattern;

pub(super) const ALL: &[Function] = &[Function::new(
    "useSeriesAbove",
    Group::FilterSeries,
    &[
        SERIES,
        Param::new("value", Kind::Float),
        Param::new("search", Kind::String),
        Param::new("replace", Kind::String),
    ],
    use_series_above,
)
.about(
    "Finds the series with a value above a threshold, and returns other series: those whose name results from a replacement.",
    "useSeriesAbove(host.*.requests, 10, 'requests', 'time')",
)];

fn use_series_above(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let threshold = args.float(1);
    let pattern = Pattern::new(args.text(2))?;
    let replacement = pattern.replacement(args.text(3))?;
    let mut names = Vec::new();
    for series in args.series(0) {
        if Aggregate::Max.of(&series.values) > threshold {
            names.push(pattern.replace_all(&series.name, &replacement)?);
        }
    }
    if names.is_empty() {
        return Ok(Vec::new().into());
    }
    let mut series = context.target(&format!("group({})", names.join(",")))?;
    series.retain(|series| !series.values.is_empty());
    Ok(series.into())
}
