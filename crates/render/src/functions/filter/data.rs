//! Points above or below something, taken out.

use crate::aggregate::percentile;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::{general, python_float};

const N: &[Param] = &[SERIES, Param::new("n", Kind::Float)];

pub(super) const ALL: &[Function] = &[
    Function::new("removeAboveValue", Group::FilterData, N, |args, _| {
        values(args, "removeAboveValue", |v, n| v > n)
    })
    .about("Takes out the points above n.", "removeAboveValue(server.latency, 1000)"),
    Function::new("removeBelowValue", Group::FilterData, N, |args, _| {
        values(args, "removeBelowValue", |v, n| v < n)
    })
    .about("Takes out the points below n.", "removeBelowValue(server.latency, 0)"),
    Function::new("removeAbovePercentile", Group::FilterData, N, |args, context| {
        percentiles(args, context, "removeAbovePercentile", |value, limit| value > limit)
    })
    .about(
        "Takes out of each series the points above its percentile n.",
        "removeAbovePercentile(server.latency, 99)",
    ),
    Function::new("removeBelowPercentile", Group::FilterData, N, |args, context| {
        percentiles(args, context, "removeBelowPercentile", |value, limit| value < limit)
    })
    .about(
        "Takes out of each series the points below its percentile n.",
        "removeBelowPercentile(server.latency, 1)",
    ),
];

fn values(args: &mut Args, function: &str, is_out: fn(f64, f64) -> bool) -> Outcome {
    let n = args.float(1);
    let mut series = args.series(0);
    for series in &mut series {
        series.rename(format!("{function}({}, {})", series.name, general(n)));
        series.map(|value| if is_out(value, n) { f64::NAN } else { value });
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
        if n > 100.0 {
            // Graphite finds no such value, and leaves the series as it is.
            continue;
        }
        let limit = percentile(series.values.iter().copied(), n, false);
        if !limit.is_nan() {
            series.tags.set("nPercentile", python_float(n));
            series.map(|value| if is_out(value, limit) { f64::NAN } else { value });
        }
    }
    Ok(series.into())
}
