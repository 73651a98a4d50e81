//! Functions of a single value.

use super::each::{Number, each};
use super::scale::power;
use crate::function::{Args, Function, Group, Outcome, SERIES};

pub(super) const ALL: &[Function] = &[
    Function::new("absolute", Group::Transform, &[SERIES], |args, _| {
        named(args, ("absolute", "1"), Number::Same, f64::abs)
    })
    .about("The absolute value of every point.", "absolute(server.temperature)"),
    Function::new("exp", Group::Transform, &[SERIES], |args, _| plain(args, "exp", "e", f64::exp))
        .about("e to the power of every point.", "exp(server.level)"),
    Function::new("invert", Group::Transform, &[SERIES], |args, _| {
        plain(args, "invert", "1", |value| power(value, -1.0))
    })
    .about("One divided by every point. It is unknown for zero.", "invert(server.rate)"),
    Function::new("isNonNull", Group::Transform, &[SERIES], |args, _| {
        named(args, ("isNonNull", "1"), Number::Integer, is_known)
    })
    .or(&["isNotNull"])
    .about("1 where a value is known, and 0 where it is not.", "isNonNull(server.uptime)"),
    Function::new("logit", Group::Transform, &[SERIES], |args, _| plain(args, "logit", "logit", logit))
        .about("The logarithm of the odds: log(x / (1 - x)).", "logit(server.share)"),
    Function::new("sigmoid", Group::Transform, &[SERIES], |args, _| {
        plain(args, "sigmoid", "sigmoid", sigmoid)
    })
    .about("The logistic function: 1 / (1 + exp(-x)).", "sigmoid(server.level)"),
    Function::new("squareRoot", Group::Transform, &[SERIES], |args, _| {
        plain(args, "squareRoot", "1", |value| power(value, 0.5))
    })
    .about("The square root of every point. It is unknown for negative values.", "squareRoot(server.area)"),
];

fn plain(args: &mut Args, name: &str, tag: &str, change: fn(f64) -> f64) -> Outcome {
    named(args, (name, tag), Number::Float, change)
}

fn named(args: &mut Args, (name, tag): (&str, &str), number: Number, change: fn(f64) -> f64) -> Outcome {
    each(args, (name, tag), |inner| format!("{name}({inner})"), number, change)
}

fn is_known(value: f64) -> f64 {
    f64::from(u8::from(!value.is_nan()))
}

fn logit(value: f64) -> f64 {
    let odds = value / (1.0 - value);
    if odds > 0.0 && value != 1.0 { odds.ln() } else { f64::NAN }
}

fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}
