//! `mostDeviant`: returns the n series with the largest variance.

use super::highest::first;
use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};

pub(super) const ALL: &[Function] = &[Function::new(
    "mostDeviant",
    Group::FilterSeries,
    &[SERIES, Param::new("n", Kind::Integer)],
    most_deviant,
)
.about("Returns the n series with the largest variance.", "mostDeviant(host.*.load, 5)")];

fn most_deviant(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let n = args.int(1);
    let variance = |values: &[f64]| {
        let mean = Aggregate::Average.of(values);
        let known = values.iter().filter(|value| !value.is_nan());
        let squares = known.fold(0.0, |sum, value| sum + (value - mean) * (value - mean));
        squares / Aggregate::Count.of(values)
    };
    let with_variance = args.series(0).into_iter().map(|series| (variance(&series.values), series));
    let mut all: Vec<_> = with_variance.filter(|(variance, _)| !variance.is_nan()).collect();
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    Ok(first(all.into_iter().map(|(_, series)| series).collect(), n).into())
}
