//! `baseline` and `baselineAberration`: comparison with the same time of earlier days.

use crate::aggregate::Aggregate;
use crate::attime::parse_interval;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::request::TimeRange;
use crate::series::TimeSeries;

const PARAMS: &[Param] = &[
    SERIES,
    Param::new("timeShiftUnit", Kind::Interval),
    Param::new("timeShiftStart", Kind::Integer),
    Param::new("timeShiftEnd", Kind::Integer),
    Param::new("maxAbsentPercent", Kind::Float).default(Default::Float(100.0)),
    Param::new("minAvg", Kind::Float).default(Default::Float(0.0)),
];

pub(super) const ALL: &[Function] = &[
    Function::new("baseline", Group::Transform, PARAMS, |args, context| baseline(args, context, false))
        .reads(ranges)
        .about(
            "The median of the points at the same time of earlier periods.",
            "baseline(server.requests, '1w', 1, 4)",
        ),
    Function::new("baselineAberration", Group::Transform, PARAMS, |args, context| {
        baseline(args, context, true)
    })
    .reads(ranges)
    .about(
        "The deviation of each point from baseline, as a share of it.",
        "baselineAberration(server.requests, '1w', 1, 4)",
    ),
];

/// Maximum number of earlier times that are read.
const SHIFTS_MAX: i64 = 100;

fn ranges(args: &Args, context: &Context<'_>) -> Result<Vec<TimeRange>, Fault> {
    let unit = -parse_interval(args.text(1))?.saturating_abs();
    let (first, last) = (args.int(2), args.int(3));
    if first < 1 || last < first || last - first >= SHIFTS_MAX {
        return Err(
            format!("timeShiftStart must be at least 1, and timeShiftEnd up to {SHIFTS_MAX} more").into()
        );
    }
    Ok((first..=last).map(|times| context.range.shifted(unit.saturating_mul(times))).collect())
}

fn baseline(args: &mut Args, context: &mut Context<'_>, is_aberration: bool) -> Outcome {
    let (mut earlier, mut is_missing) = (Vec::new(), false);
    for range in ranges(args, context)? {
        match context.again(range) {
            Err(Fault::Missing) => is_missing = true,
            series => earlier.push(series?),
        }
    }
    if is_missing {
        return Err(Fault::Missing);
    }
    let (max_absent, min_average) = (args.float(4), args.float(5));
    let mut results = Vec::new();
    for series in args.series(0) {
        let same: Vec<&TimeSeries> =
            earlier.iter().flat_map(|all| all.iter().find(|other| other.name == series.name)).collect();
        let value = |at: usize| {
            let values: Vec<f64> =
                same.iter().map(|s| s.values.get(at).copied().unwrap_or(f64::NAN)).collect();
            let absent = 100.0 - 100.0 * Aggregate::Count.of(&values) / values.len().max(1) as f64;
            let median = Aggregate::Median.of(&values);
            if absent > max_absent || median < min_average { f64::NAN } else { median }
        };
        let expected = (0..series.values.len()).map(value);
        let function = if is_aberration { "baselineAberration" } else { "baseline" };
        let values = match is_aberration {
            false => expected.collect(),
            true => {
                expected.zip(series.values.iter()).map(|(usual, now)| share(now - usual, usual)).collect()
            }
        };
        let name = format!("{function}({})", series.name);
        results.push(series.derived(name, values));
    }
    Ok(results.into())
}

/// The difference as a share of the usual value; unknown if the usual value is zero.
fn share(difference: f64, usual: f64) -> f64 {
    if usual == 0.0 { f64::NAN } else { difference / usual }
}
