//! Functions that move series in time: `timeShift` and `timeStack`.

use crate::attime::parse_interval;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::request::TimeRange;

const SHIFTS: &[Default] = &[
    Default::Text("1h"),
    Default::Text("6h"),
    Default::Text("12h"),
    Default::Text("1d"),
    Default::Text("2d"),
    Default::Text("7d"),
    Default::Text("14d"),
    Default::Text("30d"),
];

/// Maximum number of layers of a stack. Each is read separately.
const LAYERS_MAX: i64 = 1000;

pub(super) const ALL: &[Function] = &[
    Function::new(
        "timeShift",
        Group::Transform,
        &[
            SERIES,
            Param::new("timeShift", Kind::Interval).suggest(SHIFTS),
            Param::new("resetEnd", Kind::Boolean).default(Default::Boolean(true)),
            Param::new("alignDst", Kind::Boolean).default(Default::Boolean(false)).alias("alignDST"),
        ],
        time_shift,
    )
    .reads(|args, context| Ok(vec![shifted_range(args, context)?]))
    .about(
        "Shows series as they were at another time. A shift without a sign goes back.",
        "timeShift(server.requests, '7d')",
    ),
    Function::new(
        "timeStack",
        Group::Transform,
        &[
            SERIES,
            Param::new("timeShiftUnit", Kind::Interval).default(Default::Text("1d")).suggest(SHIFTS),
            Param::new("timeShiftStart", Kind::Integer).default(Default::Integer(0)),
            Param::new("timeShiftEnd", Kind::Integer).default(Default::Integer(7)),
        ],
        time_stack,
    )
    .reads(|args, context| Ok(layers(args, context)?.into_iter().map(|(_, range)| range).collect()))
    .about(
        "Shows series at several times: shifted by the unit, from start to end (exclusive) times.",
        "timeStack(server.requests, '1d', 0, 7)",
    ),
];

/// The shift with its sign. A shift without a sign goes back in time.
fn signed(text: &str) -> String {
    if text.starts_with(|c: char| c.is_ascii_digit()) { format!("-{text}") } else { text.to_owned() }
}

fn shifted_range(args: &Args, context: &Context<'_>) -> Result<TimeRange, Fault> {
    let range = context.range;
    let mut shifted = range.shifted(parse_interval(&signed(args.text(1)))?);
    if args.flag(3) {
        let is_summer = |time| context.request().zone.is_summer_time(time);
        let both = |range: TimeRange| (is_summer(range.from), is_summer(range.until));
        shifted = match (both(range), both(shifted)) {
            ((true, true), (false, false)) => shifted.shifted(3600),
            ((false, false), (true, true)) => shifted.shifted(-3600),
            _ => shifted,
        };
    }
    Ok(shifted)
}

fn time_shift(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let shift = signed(args.text(1));
    let keeps_end = args.flag(2);
    let mut shifted = context.again(shifted_range(args, context)?)?;
    let series = args.series(0);
    let Some(first) = series.first() else { return Ok(Vec::new().into()) };
    for series in &mut shifted {
        series.tags.set("timeShift", &*shift);
        series.name = format!("timeShift({}, \"{shift}\")", series.name).into();
        series.end = if keeps_end { first.end } else { series.end - series.start + first.start };
        series.start = first.start;
    }
    Ok(shifted.into())
}

fn layers(args: &Args, context: &Context<'_>) -> Result<Vec<(i64, TimeRange)>, Fault> {
    let shift = parse_interval(&signed(args.text(1)))?;
    let (first, last) = (args.int(2), args.int(3));
    if last.saturating_sub(first) > LAYERS_MAX {
        return Err(format!("a stack has at most {LAYERS_MAX} layers").into());
    }
    Ok((first..last).map(|layer| (layer, context.range.shifted(shift.saturating_mul(layer)))).collect())
}

fn time_stack(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let unit = signed(args.text(1));
    let layers = layers(args, context)?;
    let series = args.series(0);
    let Some(first) = series.first() else { return Ok(Vec::new().into()) };
    let (mut results, mut is_missing) = (Vec::new(), false);
    for (layer, range) in layers {
        let shifted = match context.again(range) {
            Err(Fault::Missing) => {
                is_missing = true;
                continue;
            }
            shifted => shifted?,
        };
        for mut series in shifted {
            series.tags.set("timeShiftUnit", &*unit);
            series.tags.set("timeShift", layer.to_string());
            series.rename(format!("timeShift({}, {unit}, {layer})", series.name));
            (series.start, series.end) = (first.start, first.end);
            results.push(series);
        }
    }
    if is_missing { Err(Fault::Missing) } else { Ok(results.into()) }
}
