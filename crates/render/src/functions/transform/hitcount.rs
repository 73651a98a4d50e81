//! `hitcount`: treats points as rates per second, and adds them up to amounts in buckets of time.

use super::summarize::{INTERVAL, interval};
use crate::attime::Unit;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::request::TimeRange;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "hitcount",
    Group::Transform,
    &[SERIES, INTERVAL, Param::new("alignToInterval", Kind::Boolean).default(Default::Boolean(false))],
    hitcount,
)
.reads(|args, context| if args.flag(2) { Ok(vec![aligned_range(args, context)?]) } else { Ok(Vec::new()) })
.about(
    "Takes points as rates per second, and sums them up to amounts in buckets of time.",
    "hitcount(server.rate, '1h')",
)];

fn hitcount(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let (seconds, shown, is_aligned) = (interval(args, 1)?, args.text(1).to_owned(), args.flag(2));
    let mut series = args.series(0);
    if is_aligned {
        series = context.again(aligned_range(args, context)?)?;
        for series in &mut series {
            series.end = series.start + (series.end - series.start).div_euclid(seconds) * seconds + seconds;
        }
    }
    let suffix = if is_aligned { ", true" } else { "" };
    let count = |mut series: TimeSeries| -> Result<TimeSeries, Fault> {
        let (start, values) = amounts(&series, seconds, context)?;
        series.tags.set("hitcount", &*shown);
        let name = format!("hitcount({}, \"{shown}\"{suffix})", series.name);
        let is_whole = series.is_whole;
        Ok(TimeSeries { start, step: seconds, is_whole, ..series.derived(name, values) })
    };
    Ok(series.into_iter().map(count).collect::<Result<Vec<_>, _>>()?.into())
}

/// The range from the start of the minute, hour or day, depending on the length of the interval.
fn aligned_range(args: &Args, context: &Context<'_>) -> Result<TimeRange, Fault> {
    let unit = match interval(args, 1)? {
        86_400.. => Unit::Day,
        3600.. => Unit::Hour,
        60.. => Unit::Minute,
        _ => return Ok(context.range),
    };
    let from = context
        .request()
        .zone
        .beginning(context.range.from, unit)
        .ok_or("the time is outside of the calendar")?;
    Ok(TimeRange { from, ..context.range })
}

/// The amount in each bucket, and the start of the first one. The last bucket ends with the series.
fn amounts(series: &TimeSeries, seconds: i64, context: &Context<'_>) -> Result<(i64, Vec<f64>), Fault> {
    let count = (series.end - series.start + seconds - 1).div_euclid(seconds).max(0);
    let start = series.end - count * seconds;
    let len = usize::try_from(count).unwrap_or(0);
    context.count_points(len)?;
    let mut buckets = vec![f64::NAN; len];
    let mut add = |bucket: i64, amount: f64| {
        if let Some(sum) = usize::try_from(bucket).ok().and_then(|bucket| buckets.get_mut(bucket)) {
            *sum = if sum.is_nan() { 0.0 } else { *sum } + amount;
        }
    };
    for (at, value) in (0i64..).zip(series.values.iter()).filter(|(_, value)| !value.is_nan()) {
        let begin = series.start + at * series.step - start;
        let (first, into) = (begin.div_euclid(seconds), begin.rem_euclid(seconds));
        let end = begin + series.step;
        let (mut last, mut rest) = (end.div_euclid(seconds), end.rem_euclid(seconds));
        if last >= count {
            (last, rest) = (count - 1, seconds);
        }
        if first == last {
            add(first, value * (rest - into) as f64);
            continue;
        }
        add(first, value * (seconds - into) as f64);
        for bucket in first + 1..last {
            add(bucket, value * seconds as f64);
        }
        if rest > 0 {
            add(last, value * rest as f64);
        }
    }
    Ok((start, buckets))
}
