//! Functions of a value and a constant.

use super::each::{Number, each};
use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::{general, python_float, rounded, whole};

const FACTOR: Param = Param::new("factor", Kind::Float);

pub(super) const ALL: &[Function] = &[
    Function::new("scale", Group::Transform, &[SERIES, FACTOR], |args, _| {
        let factor = args.float(1);
        named(args, "scale", general(factor), |value| value * factor)
    })
    .about("Multiplies every point by a constant.", "scale(server.bytes, 8)"),
    Function::new("add", Group::Transform, &[SERIES, Param::new("constant", Kind::Float)], |args, _| {
        let constant = args.float(1);
        named(args, "add", whole(constant), |value| value + constant)
    })
    .about(
        "Adds a constant to every point. The name shows the constant without its fraction.",
        "add(server.temperature, 273)",
    ),
    Function::new("offset", Group::Transform, &[SERIES, FACTOR], |args, _| {
        let factor = args.float(1);
        named(args, "offset", general(factor), |value| value + factor)
    })
    .about("Adds a constant to every point.", "offset(server.temperature, -273.15)"),
    Function::new("pow", Group::Transform, &[SERIES, FACTOR], |args, _| {
        let factor = args.float(1);
        named(args, "pow", general(factor), |value| power(value, factor))
    })
    .about("Raises every point to the power of a constant.", "pow(server.side, 2)"),
    Function::new(
        "log",
        Group::Transform,
        &[SERIES, Param::new("base", Kind::Integer).default(Default::Integer(10))],
        log,
    )
    .or(&["logarithm"])
    .about("The logarithm of every point. It is unknown for zero and below.", "log(server.requests, 2)"),
    Function::new(
        "round",
        Group::Transform,
        &[SERIES, Param::new("precision", Kind::Integer).default(Default::Integer(0))],
        round,
    )
    .about("Rounds every point to a number of decimals, ties to the even digit.", "round(server.load, 2)"),
    Function::new(
        "scaleToSeconds",
        Group::Transform,
        &[SERIES, Param::new("seconds", Kind::Float)],
        scale_to_seconds,
    )
    .about(
        "Scales points from amounts per step to amounts per number of seconds.",
        "scaleToSeconds(server.requests, 1)",
    ),
];

/// Applies a function with a constant, which is also the value of its tag.
fn named(args: &mut Args, function: &str, shown: String, change: impl Fn(f64) -> f64) -> Outcome {
    let tag = python_float(args.float(1));
    each(args, (function, &tag), |name| format!("{function}({name},{shown})"), Number::Float, change)
}

/// The power; unknown if it is not a number, or too large.
pub(crate) fn power(base: f64, exponent: f64) -> f64 {
    if base.is_nan() || exponent.is_nan() {
        return f64::NAN;
    }
    let power = base.powf(exponent);
    if power.is_infinite() && base.is_finite() && exponent.is_finite() { f64::NAN } else { power }
}

fn log(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let base = args.int(1);
    let divisor = (base as f64).ln();
    let of = |value: &f64| if *value > 0.0 { value.ln() / divisor } else { f64::NAN };
    let logarithm = |mut series: crate::series::TimeSeries| {
        series.tags.set("log", base.to_string());
        let values = series.values.iter().map(of).collect();
        let name = format!("log({}, {base})", series.name);
        series.derived(name, values)
    };
    Ok(args.series(0).into_iter().map(logarithm).collect::<Vec<_>>().into())
}

fn round(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let precision = args.given_int(1);
    let decimals = precision.unwrap_or(0);
    let name = |name: &str| match precision {
        None => format!("round({name})"),
        Some(precision) => format!("round({name},{})", general(precision as f64)),
    };
    each(args, ("round", &decimals.to_string()), name, Number::Same, |value| rounded(value, decimals))
}

fn scale_to_seconds(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let seconds = args.float(1);
    let mut series = args.series(0);
    for series in &mut series {
        series.tags.set("scaleToSeconds", python_float(seconds));
        series.rename(format!("scaleToSeconds({},{})", series.name, whole(seconds)));
        let factor = seconds / series.step as f64;
        series.map(|value| rounded(value * factor, 6));
    }
    Ok(series.into())
}
