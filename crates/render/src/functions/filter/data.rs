//! Functions that remove points above or below a limit.

use crate::aggregate::percentile_within;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::{general, python_float};

const N: &[Param] = &[SERIES, Param::new("n", Kind::Float)];

pub(super) const ALL: &[Function] = &[
    Function::new("removeAboveValue", Group::FilterData, N, |args, _| {
        values(args, "removeAboveValue", |v, n| v > n)
    })
    .about("Removes the points above n.", "removeAboveValue(server.latency, 1000)"),
    Function::new("removeBelowValue", Group::FilterData, N, |args, _| {
        values(args, "removeBelowValue", |v, n| v < n)
    })
    .about("Removes the points below n.", "removeBelowValue(server.latency, 0)"),
    Function::new("removeAbovePercentile", Group::FilterData, N, |args, context| {
        percentiles(args, context, "removeAbovePercentile", |value, limit| value > limit)
    })
    .about(
        "Removes the points above the percentile n of each series.",
        "removeAbovePercentile(server.latency, 99)",
    ),
    Function::new("removeBelowPercentile", Group::FilterData, N, |args, context| {
        percentiles(args, context, "removeBelowPercentile", |value, limit| value < limit)
    })
    .about(
        "Removes the points below the percentile n of each series.",
        "removeBelowPercentile(server.latency, 1)",
    ),
];

fn values(args: &mut Args, function: &str, is_out: fn(f64, f64) -> bool) -> Outcome {
    let n = args.float(1);
    let mut series = args.series(0);
    for series in &mut series {
        series.rename(format!("{function}({}, {})", series.name, general(n)));
        series.remove(|value| is_out(value, n));
    }
    Ok(series.into())
}

fn percentiles(
    args: &mut Args,
    _: &mut Context<'_>,
    function: &str,
    is_out: fn(f64, f64) -> bool,
) -> Outcome {
    let n = args.float(1);
    let mut series = args.series(0);
    if !series.is_empty() && (n == 0.0 || n.is_nan()) {
        return Err("the argument n must not be 0".into());
    }
    for series in &mut series {
        series.rename(format!("{function}({}, {})", series.name, general(n)));
        // As in graphite-web, a series without this percentile stays as it is.
        let Some(limit) = percentile_within(series.values.iter().copied(), n) else { continue };
        series.tags.set("nPercentile", python_float(n));
        if series.end - series.start >= series.step {
            series.remove(|value| is_out(value, limit));
        }
    }
    Ok(series.into())
}
