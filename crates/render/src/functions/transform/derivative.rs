//! Differences between neighbours.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::rounded;
use crate::series::TimeSeries;

const LIMITS: &[Param] =
    &[SERIES, Param::new("maxValue", Kind::Float).optional(), Param::new("minValue", Kind::Float).optional()];

pub(super) const ALL: &[Function] = &[
    Function::new("derivative", Group::Transform, &[SERIES], derivative)
        .about("The change from each point to the next.", "derivative(server.counter)"),
    Function::new("nonNegativeDerivative", Group::Transform, LIMITS, |args, _| {
        growth(args, "nonNegativeDerivative", |delta, _| delta)
    })
    .about(
        "The growth of a counter from each point to the next; a fall is a wrap at maxValue, or unknown.",
        "nonNegativeDerivative(server.counter)",
    ),
    Function::new("perSecond", Group::Transform, LIMITS, |args, _| {
        growth(args, "perSecond", |delta, step| rounded(delta / step, 6))
    })
    .about(
        "The growth of a counter per second; a fall is a wrap at maxValue, or unknown.",
        "perSecond(server.counter)",
    ),
];

fn derivative(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let derive = |mut series: TimeSeries| {
        series.tags.set("derivative", "1");
        let mut previous = f64::NAN;
        let change = |value: &f64| *value - std::mem::replace(&mut previous, *value);
        let values = series.values.iter().map(change).collect();
        let name = format!("derivative({})", series.name);
        series.derived(name, values)
    };
    Ok(args.series(0).into_iter().map(derive).collect::<Vec<_>>().into())
}

fn growth(args: &mut Args, function: &str, of: fn(f64, f64) -> f64) -> Outcome {
    let (max, min) = (args.given_float(1), args.given_float(2));
    let derive = |mut series: TimeSeries| {
        series.tags.set(function, "1");
        let step = series.step as f64;
        let values = non_negative(&series.values, max, min).map(|delta| of(delta, step)).collect();
        let name = format!("{function}({})", series.name);
        series.derived(name, values)
    };
    Ok(args.series(0).into_iter().map(derive).collect::<Vec<_>>().into())
}

/// How much a counter grew at each value. A value beyond the limits counts as unknown; a fall is
/// explained by a wrap at the limits that are known, and is unknown without.
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
