//! `removeZeroSeries`: returns the series in which at least this share of the slots is not zero.

use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};

pub(super) const ALL: &[Function] = &[Function::new(
    "removeZeroSeries",
    Group::FilterSeries,
    &[SERIES, Param::new("xFilesFactor", Kind::Float).default(Default::Float(0.0))],
    remove_zero,
)
.about(
    "Returns the series in which at least this share of the slots is not zero.",
    "removeZeroSeries(host.*.errors)",
)];

fn remove_zero(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let factor = args.float(1);
    let mut series = args.series(0);
    series.retain(|series| {
        let others = series.values.iter().filter(|value| !value.is_nan() && **value != 0.0).count();
        others > 0 && others as f64 / series.values.len() as f64 >= factor
    });
    Ok(series.into())
}
