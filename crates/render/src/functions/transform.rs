//! One series into one.

mod delay;
mod derivative;
mod gaps;
mod hitcount;
mod integral;
mod made;
mod minmax;
mod null;
mod scale;
mod summarize;
mod time_shift;
mod time_slice;
mod unary;

pub(super) use scale::power;

use crate::function::{Args, Function, Outcome};

pub(super) const ALL: &[&[Function]] = &[
    delay::ALL,
    derivative::ALL,
    gaps::ALL,
    hitcount::ALL,
    integral::ALL,
    made::ALL,
    minmax::ALL,
    null::ALL,
    scale::ALL,
    summarize::ALL,
    time_shift::ALL,
    time_slice::ALL,
    unary::ALL,
];

/// Every series renamed, tagged with what was done (unless the value is empty), and every value changed.
pub(super) fn each(
    args: &mut Args,
    (tag, value): (&str, &str),
    name: impl Fn(&str) -> String,
    change: impl Fn(f64) -> f64,
) -> Outcome {
    let mut series = args.series(0);
    for series in &mut series {
        if !value.is_empty() {
            series.tags.set(tag, value);
        }
        series.rename(name(&series.name));
        series.map(&change);
    }
    Ok(series.into())
}
