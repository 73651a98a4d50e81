//! `minMax` and `offsetToZero`.

use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Function, Group, Outcome, SERIES};
use crate::number::python_number;

pub(super) const ALL: &[Function] = &[
    Function::new("minMax", Group::Transform, &[SERIES], min_max).about(
        "Scales each series so that its smallest value is 0 and its largest 1.",
        "minMax(server.load)",
    ),
    Function::new("offsetToZero", Group::Transform, &[SERIES], offset_to_zero).about(
        "Subtracts the smallest value of each series from its points.",
        "offsetToZero(server.counter)",
    ),
];

fn min_max(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let mut series = args.series(0);
    for series in &mut series {
        series.rename(format!("minMax({})", series.name));
        let (min, max) = (Aggregate::Min.of(&series.values), Aggregate::Max.of(&series.values));
        series.map(|value| match max - min {
            range if range == 0.0 && !value.is_nan() => 0.0,
            range => (value - min) / range,
        });
    }
    Ok(series.into())
}

fn offset_to_zero(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let mut series = args.series(0);
    for series in &mut series {
        let min = Aggregate::Min.of(&series.values);
        let is_whole = series.is_whole;
        let shown = if min.is_nan() { "None".to_owned() } else { python_number(min, is_whole) };
        series.tags.set("offsetToZero", shown);
        series.rename(format!("offsetToZero({})", series.name));
        series.map(|value| value - min);
        series.is_whole = is_whole;
    }
    Ok(series.into())
}
