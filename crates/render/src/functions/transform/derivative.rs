//! Functions of the difference between a point and the previous one.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::rounded;
use crate::series::TimeSeries;

const LIMITS: &[Param] =
    &[SERIES, Param::new("maxValue", Kind::Float).optional(), Param::new("minValue", Kind::Float).optional()];

pub(super) const ALL: &[Function] = &[
    Function::new("derivative", Group::Transform, &[SERIES], derivative)
        .about("The difference between each point and the one before it.", "derivative(server.counter)"),
    Function::new("nonNegativeDerivative", Group::Transform, LIMITS, |args, _| {
        growth(args, "nonNegativeDerivative", |delta, _| delta)
    })
    .about(
        "The growth of a counter since the point before. A decrease counts as a wrap at maxValue, or is unknown.",
        "nonNegativeDerivative(server.counter)",
    ),
    Function::new("perSecond", Group::Transform, LIMITS, |args, _| {
        growth(args, "perSecond", |delta, step| rounded(delta / step, 6))
    })
    .about(
        "The growth of a counter per second. A decrease counts as a wrap at maxValue, or is unknown.",
        "perSecond(server.counter)",
    ),
];

fn derivative(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let derive = |mut series: TimeSeries| {
        series.tags.set("derivative", "1");
        let mut previous = f64::NAN;
        let change = |value: &f64| *value - std::mem::replace(&mut previous, *value);
        let values = series.values.iter().map(change).collect();
        let (name, is_whole) = (format!("derivative({})", series.name), series.is_whole);
        series.derived(name, values).whole(is_whole)
    };
    Ok(args.series(0).into_iter().map(derive).collect::<Vec<_>>().into())
}

fn growth(args: &mut Args, function: &str, of: fn(f64, f64) -> f64) -> Outcome {
    let (max, min) = (args.given_float(1), args.given_float(2));
    // Limits and rates are floats in graphite-web.
    let keeps_whole = function == "nonNegativeDerivative" && max.is_none() && min.is_none();
    let derive = |mut series: TimeSeries| {
        series.tags.set(function, "1");
        let step = series.step as f64;
        let values = non_negative(&series.values, max, min).map(|delta| of(delta, step)).collect();
        let (name, is_whole) = (format!("{function}({})", series.name), series.is_whole && keeps_whole);
        series.derived(name, values).whole(is_whole)
    };
    Ok(args.series(0).into_iter().map(derive).collect::<Vec<_>>().into())
}

/// The growth of a counter at each value. A value outside of the limits counts as unknown. A decrease counts as
/// a wrap at the limits, and is unknown without limits.
fn non_negative(values: &[f64], max: Option<f64>, min: Option<f64>) -> impl Iterator<Item = f64> + '_ {
    let mut previous = f64::NAN;
    values.iter().map(move |value| {
        if max.is_some_and(|max| *value > max) || min.is_some_and(|min| *value < min) {
            previous = f64::NAN;
            return f64::NAN;
        }
        let before = std::mem::replace(&mut previous, *value);
        match (max, min) {
            _ if before.is_nan() || value.is_nan() || *value >= before => *value - before,
            (Some(max), min) => max + 1.0 + *value - before - min.unwrap_or(0.0),
            (None, Some(min)) => *value - min,
            (None, None) => f64::NAN,
        }
    })
}
