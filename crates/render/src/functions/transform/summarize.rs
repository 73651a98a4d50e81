//! Functions that combine points in buckets of time: `summarize` and `smartSummarize`.

use crate::aggregate::Aggregate;
use crate::attime::{Unit, parse_interval};
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::request::TimeRange;
use crate::series::TimeSeries;
use crate::target::Literal;

pub(super) const INTERVAL: Param = Param::new("intervalString", Kind::Interval).suggest(&[
    Default::Text("10min"),
    Default::Text("1h"),
    Default::Text("1d"),
]);
const FUNC: Param = Param::new("func", Kind::AggFunc).default(Default::Text("sum"));

pub(super) const ALL: &[Function] = &[
    Function::new(
        "summarize",
        Group::Transform,
        &[SERIES, INTERVAL, FUNC, Param::new("alignToFrom", Kind::Boolean).default(Default::Boolean(false))],
        summarize,
    )
    .about(
        "Combines points in buckets of time. Buckets begin at multiples of their length since 1970.",
        "summarize(server.requests, '1h', 'sum')",
    ),
    Function::new(
        "smartSummarize",
        Group::Transform,
        &[SERIES, INTERVAL, FUNC, Param::new("alignTo", Kind::String).optional().options(ALIGNMENTS)],
        smart_summarize,
    )
    .reads(|args, context| Ok(aligned_range(args, context)?.into_iter().collect()))
    .about(
        "Combines points in buckets of time. The first one begins with the graph, or with the unit of time that contains its start.",
        "smartSummarize(server.requests, '1h', 'sum', 'hours')",
    ),
];

const ALIGNMENTS: &[&str] = &[
    "years", "months", "weeks", "weeks1", "weeks2", "weeks3", "weeks4", "weeks5", "weeks6", "weeks7", "days",
    "hours", "minutes", "seconds", "True", "False",
];

/// The seconds of an interval; an error if it is not positive.
pub(super) fn interval(args: &Args, at: usize) -> Result<i64, Fault> {
    match parse_interval(args.text(at))? {
        seconds if seconds > 0 => Ok(seconds),
        _ => Err("the interval must be longer than zero".into()),
    }
}

fn summarize(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let (seconds, shown) = (interval(args, 1)?, args.text(1).to_owned());
    let (method, method_name) = args.aggregate(2)?;
    let from_start = args.flag(3);
    let suffix = if from_start { ", true" } else { "" };
    let fold = |mut series: TimeSeries| -> Result<TimeSeries, Fault> {
        let (start, end) = if from_start {
            (series.start, series.end)
        } else {
            let start = series.start - series.start.rem_euclid(seconds);
            (start, series.end - series.end.rem_euclid(seconds) + seconds)
        };
        let (values, last) = buckets(&series, method, seconds, start, end, context)?;
        series.tags.set("summarize", &*shown);
        series.tags.set("summarizeFunction", &*method_name);
        let name = format!("summarize({}, \"{shown}\", \"{method_name}\"{suffix})", series.name);
        let end = if from_start { last } else { end };
        let is_whole = method.is_whole(series.is_whole, 0);
        Ok(TimeSeries { start, end, step: seconds, is_whole, ..series.derived(name, values) })
    };
    Ok(args.series(0).into_iter().map(fold).collect::<Result<Vec<_>, _>>()?.into())
}

fn smart_summarize(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let (seconds, shown) = (interval(args, 1)?, args.text(1).to_owned());
    let (method, method_name) = args.aggregate(2)?;
    let series = match aligned_range(args, context)? {
        Some(range) => context.again(range)?,
        None => args.series(0),
    };
    let fold = |mut series: TimeSeries| -> Result<TimeSeries, Fault> {
        let (values, end) = buckets(&series, method, seconds, series.start, series.end, context)?;
        series.tags.set("smartSummarize", &*shown);
        series.tags.set("smartSummarizeFunction", &*method_name);
        let name = format!("smartSummarize({}, \"{shown}\", \"{method_name}\")", series.name);
        let is_whole = method.is_whole(series.is_whole, 0);
        Ok(TimeSeries { end, step: seconds, is_whole, ..series.derived(name, values) })
    };
    Ok(series.into_iter().map(fold).collect::<Result<Vec<_>, _>>()?.into())
}

/// The range from the start of a calendar unit. As in graphite-web a boolean has no effect.
fn aligned_range(args: &Args, context: &Context<'_>) -> Result<Option<TimeRange>, Fault> {
    let text = match args.literal(3) {
        Some(Literal::String(text)) if !matches!(&**text, "True" | "False") => text,
        _ => return Ok(None),
    };
    let unit = match text.as_str() {
        "years" => Unit::Year,
        "months" => Unit::Month,
        "days" => Unit::Day,
        "hours" => Unit::Hour,
        "minutes" => Unit::Minute,
        "seconds" => Unit::Second,
        weeks => {
            Unit::Week(weeks.bytes().last().filter(u8::is_ascii_digit).map_or(1, |day| i64::from(day - b'0')))
        }
    };
    let from = context
        .request()
        .zone
        .beginning(context.range.from, unit)
        .ok_or("the time is outside of the calendar")?;
    Ok(Some(TimeRange { from, ..context.range }))
}

/// One value for each bucket from `start` up to the one that contains `end`, and the end of the last bucket. As
/// in graphite-web, a bucket that begins between two points includes the point before it.
pub(super) fn buckets(
    series: &TimeSeries,
    method: Aggregate,
    seconds: i64,
    start: i64,
    end: i64,
    context: &Context<'_>,
) -> Result<(Vec<f64>, i64), Fault> {
    let count = usize::try_from((end - start + seconds - 1).div_euclid(seconds)).unwrap_or(0);
    context.count_points(count)?;
    let slots = seconds as f64 / series.step as f64;
    let inside = (series.end - series.start + series.step - 1).div_euclid(series.step);
    let values = &series.values[..usize::try_from(inside).unwrap_or(0).min(series.values.len())];
    let time = |at: usize| series.start + at as i64 * series.step;
    let (mut folded, mut at, mut bucket) = (Vec::with_capacity(count), 0, start);
    while bucket < end {
        let (mut first, mut known) = (at, 0);
        while at < values.len() && time(at) < bucket + seconds {
            if time(at) <= bucket {
                first = at;
            }
            known += usize::from(time(at) >= bucket && !values[at].is_nan());
            at += 1;
        }
        let is_enough = known > 0 && known as f64 / slots >= series.x_files_factor;
        folded.push(if is_enough { method.of(&values[first..at]) } else { f64::NAN });
        bucket += seconds;
    }
    Ok((folded, bucket))
}
