//! Functions that fill or remove gaps.

use super::summarize::buckets;
use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::{DrawOptions, TimeSeries};
use crate::target::Literal;

const LIMIT: Param = Param::new("limit", Kind::IntOrInf).default(Default::Float(f64::INFINITY));

pub(super) const ALL: &[Function] = &[
    Function::new("interpolate", Group::Transform, &[SERIES, LIMIT], interpolate)
        .about("Fills gaps of at most limit points with a straight line.", "interpolate(server.load, 5)"),
    Function::new("keepLastValue", Group::Transform, &[SERIES, LIMIT], keep_last_value).about(
        "Fills gaps of at most limit points with the last known value.",
        "keepLastValue(server.state, 5)",
    ),
    Function::new("compressPeriodicGaps", Group::Transform, &[SERIES], compress_periodic_gaps).about(
        "Removes periodic gaps of a metric that is sent less often than its step.",
        "compressPeriodicGaps(server.daily)",
    ),
];

/// The longest gap that is filled, in points.
fn limit(args: &Args) -> usize {
    match args.literal(1) {
        Some(Literal::Integer(limit)) => usize::try_from(*limit).unwrap_or(0),
        _ => usize::MAX,
    }
}

fn interpolate(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let limit = limit(args);
    let mut series = args.series(0);
    for series in &mut series {
        series.rename(format!("interpolate({})", series.name));
        let values = series.values_mut();
        let mut last = None;
        for at in 0..values.len() {
            if values[at].is_nan() {
                continue;
            }
            if let Some(before) = last.replace(at).filter(|before| (1..=limit).contains(&(at - before - 1))) {
                let (low, rise) = (values[before], values[at] - values[before]);
                for (step, gap) in (1..).zip(&mut values[before + 1..at]) {
                    *gap = low + f64::from(step) * rise / (at - before) as f64;
                }
            }
        }
    }
    Ok(series.into())
}

fn keep_last_value(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let limit = limit(args);
    let mut series = args.series(0);
    for series in &mut series {
        series.rename(format!("keepLastValue({})", series.name));
        let values = series.values_mut();
        let mut last = None;
        for at in 0..=values.len() {
            if values.get(at).is_some_and(|value| value.is_nan()) {
                continue;
            }
            if let Some(before) = last.replace(at)
                && at - before - 1 <= limit
            {
                let kept = values[before];
                values[before + 1..at].fill(kept);
            }
        }
    }
    Ok(series.into())
}

fn compress_periodic_gaps(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let compress = |mut series: TimeSeries| {
        series.rename(format!("compressPeriodicGaps({})", series.name));
        compressed(series, context)
    };
    Ok(args.series(0).into_iter().map(compress).collect::<Result<Vec<_>, Fault>>()?.into())
}

/// Guesses the period from the first two values other than zero, without the very first point. It is used if a
/// third value follows at the same distance, with gaps on both sides.
fn compressed(series: TimeSeries, context: &Context<'_>) -> Result<TimeSeries, Fault> {
    let values = &series.values;
    let is_value = |at: &usize| values.get(*at).is_some_and(|value| !value.is_nan() && *value != 0.0);
    let mut seen = (1..values.len()).filter(is_value);
    let first = seen.next().unwrap_or(0);
    let second = seen.next().unwrap_or(0);
    let is_gap = |at: usize| values.get(at).is_some_and(|value| value.is_nan());
    let period = second.saturating_sub(first);
    let third = second + period;
    if period <= 1 || !is_value(&third) || !is_gap(third - 1) || !is_gap(third + 1) {
        return Ok(series);
    }
    let interval = period as i64 * series.step;
    let start = series.start + first as i64 * series.step;
    let (values, _) = buckets(&series, Aggregate::Last, interval, start, series.end, context)?;
    let end = start + interval * (values.len() as i64 - 1);
    Ok(TimeSeries {
        start,
        end,
        step: interval,
        values: values.into(),
        options: DrawOptions::default(),
        ..series
    })
}
