//! `slo` and `sloErrorBudget`: the share of points that meet an objective.

use crate::attime::parse_interval;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::general;
use crate::request::TimeRange;
use crate::series::TimeSeries;

const INTERVAL: Param = Param::new("interval", Kind::Interval);
const METHODS: &[&str] = &["above", "aboveOrEqual", "below", "belowOrEqual"];
const METHOD: Param = Param::new("method", Kind::String).options(METHODS);
const VALUE: Param = Param::new("value", Kind::Float);

pub(super) const ALL: &[Function] = &[
    Function::new("slo", Group::Transform, &[SERIES, INTERVAL, METHOD, VALUE], |args, context| {
        shares(args, context, ("slo", ""), |share, _| share)
    })
    .reads(whole_interval)
    .about(
        "The share of the points of each interval that are above or below a value.",
        "slo(server.latency, '1h', 'below', 100)",
    ),
    Function::new(
        "sloErrorBudget",
        Group::Transform,
        &[SERIES, INTERVAL, METHOD, VALUE, Param::new("objective", Kind::Float)],
        error_budget,
    )
    .reads(whole_interval)
    .about(
        "The part of the allowed errors that is left in each interval.",
        "sloErrorBudget(server.latency, '1h', 'below', 100, 0.99)",
    ),
];

fn error_budget(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let objective = args.float(4);
    let shown = format!(", {}", general(objective));
    shares(args, context, ("sloErrorBudget", &shown), move |share, seconds| (share - objective) * seconds)
}

/// If the interval is longer than the graph, the whole interval is read.
fn whole_interval(args: &Args, context: &Context<'_>) -> Result<Vec<TimeRange>, Fault> {
    let missing = parse_interval(args.text(1))? - (context.range.until - context.range.from);
    Ok(if missing > 0 { vec![context.range.earlier(missing)] } else { Vec::new() })
}

fn shares(
    args: &mut Args,
    context: &mut Context<'_>,
    (function, more): (&str, &str),
    of: impl Fn(f64, f64) -> f64,
) -> Outcome {
    let shown = args.text(1).to_owned();
    let seconds = parse_interval(&shown)?;
    if seconds < 1 {
        return Err("the interval must be longer than zero".into());
    }
    let (method, value) = (args.text(2).to_owned(), args.float(3));
    let is_kept = |point: f64| match method.as_str() {
        "above" => point > value,
        "aboveOrEqual" => point >= value,
        "below" => point < value,
        _ => point <= value,
    };
    let longer = match whole_interval(args, context)?.first() {
        Some(range) => context.again(*range)?,
        None => Vec::new(),
    };
    let judge = |series: TimeSeries| -> Result<TimeSeries, Fault> {
        let points = longer.iter().find(|longer| longer.name == series.name).unwrap_or(&series);
        // As in carbonapi, intervals begin with the series, not at multiples of their length.
        let shown_intervals = intervals(series.end - series.start, seconds);
        context.count_points(shown_intervals)?;
        let values: Vec<f64> = if series.step > seconds {
            vec![f64::NAN; shown_intervals]
        } else {
            buckets(points, seconds)
                .map(|(points, length)| of(share(points, is_kept), length as f64))
                .collect()
        };
        let name = format!("{function}({}, {shown}, {method}, {}{more})", series.name, general(value));
        let end = series.start + shown_intervals as i64 * seconds;
        Ok(TimeSeries { end, step: seconds, ..series.derived(name, values) })
    };
    Ok(args.series(0).into_iter().map(judge).collect::<Result<Vec<_>, _>>()?.into())
}

fn intervals(length: i64, seconds: i64) -> usize {
    usize::try_from((length + seconds - 1) / seconds).unwrap_or(0)
}

/// The points and the length (in seconds) of each interval. The last one may be shorter.
fn buckets(series: &TimeSeries, seconds: i64) -> impl Iterator<Item = (&[f64], i64)> {
    let (step, len) = (series.step, series.values.len() as i64);
    // The index of the first point at or after the start of an interval.
    let first = move |interval: i64| ((interval * seconds + step - 1) / step).min(len);
    let interval = move |at| (at, first(at), first(at + 1));
    (0..).map(interval).take_while(|(_, from, until)| from < until).map(move |(at, from, until)| {
        let is_whole = until * step >= (at + 1) * seconds;
        let length = if is_whole { seconds } else { (until - from) * step };
        (&series.values[from as usize..until as usize], length)
    })
}

/// The share of the known points that meet the objective; unknown if no point is known.
fn share(points: &[f64], is_kept: impl Fn(f64) -> bool) -> f64 {
    let known = || points.iter().filter(|point| !point.is_nan());
    known().filter(|point| is_kept(**point)).count() as f64 / known().count() as f64
}
