//! `linearRegression`: the straight line that fits the points best. It can be computed from the points of
//! another time.

use crate::attime;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::request::TimeRange;
use crate::series::{Consolidation, TimeSeries};

pub(super) const ALL: &[Function] = &[Function::new(
    "linearRegression",
    Group::Calculate,
    &[
        SERIES,
        Param::new("startSourceAt", Kind::Date).optional(),
        Param::new("endSourceAt", Kind::Date).optional(),
    ],
    linear_regression,
)
.reads(|args, context| Ok(vec![source_range(args, context)?]))
.about(
    "The straight line that fits the points best. It can be computed from the points of another time.",
    "linearRegression(disk.used, '-7d')",
)];

/// The range of the points that the line is computed from. Times in the wrong order are swapped, like those of
/// a request; graphite-web fails.
fn source_range(args: &Args, context: &Context<'_>) -> Result<TimeRange, Fault> {
    let request = context.request();
    let time = |at: usize, otherwise: i64| -> Result<i64, Fault> {
        let Some(text) = args.given_text(at) else { return Ok(otherwise) };
        Ok(attime::parse(text, request.now, &request.zone).map_err(|error| error.to_string())?)
    };
    let (from, until) = (time(1, context.range.from)?, time(2, context.range.until)?);
    Ok(TimeRange { from: from.min(until), until: from.max(until) })
}

fn linear_regression(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let source = source_range(args, context)?;
    let sources = context.again(source)?;
    let mut results = Vec::new();
    for (source_series, mut series) in sources.iter().zip(args.series(0)) {
        series.tags.set("linearRegressions", format!("{}, {}", source.from, source.until));
        let Some((slope, intercept)) = line(source_series) else { continue };
        let (start, step) = (series.start, series.step);
        let times = (0..series.values.len() as i64).map(|at| start + at * step);
        let values = times.map(|time| intercept + time as f64 * slope).collect();
        let name = format!("linearRegression({}, {}, {})", series.name, source.from, source.until);
        let consolidation = Consolidation::default();
        results.push(TimeSeries { consolidation, ..series.derived(name, values) });
    }
    Ok(results.into())
}

/// The line with the least squares: its slope per second, and its value at the epoch. `None` if there are fewer
/// than two points.
fn line(series: &TimeSeries) -> Option<(f64, f64)> {
    let (mut n, mut sum_i, mut sum_ii) = (0i128, 0i128, 0i128);
    let (mut sum_v, mut sum_iv) = (0.0, 0.0);
    for (i, value) in (0i128..).zip(series.values.iter()).filter(|(_, value)| !value.is_nan()) {
        (n, sum_i, sum_ii) = (n + 1, sum_i + i, sum_ii + i * i);
        (sum_v, sum_iv) = (sum_v + value, sum_iv + i as f64 * value);
    }
    let denominator = (n * sum_ii - sum_i * sum_i) as f64;
    if denominator == 0.0 {
        return None;
    }
    let slope = (n as f64 * sum_iv - sum_i as f64 * sum_v) / denominator / series.step as f64;
    let intercept =
        (sum_ii as f64 * sum_v - sum_iv * sum_i as f64) / denominator - slope * series.start as f64;
    Some((slope, intercept))
}
