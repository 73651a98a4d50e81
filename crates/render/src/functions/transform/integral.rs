//! `integral` and `integralByInterval`.

use crate::attime::parse_interval;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[
    Function::new("integral", Group::Transform, &[SERIES], integral)
        .about("The running sum of the points.", "integral(server.requests)"),
    Function::new(
        "integralByInterval",
        Group::Transform,
        &[SERIES, Param::new("intervalUnit", Kind::String)],
        integral_by_interval,
    )
    .about(
        "The running sum of the points, which starts again from zero with each interval from the start of \
         the graph.",
        "integralByInterval(server.requests, '1d')",
    ),
];

fn integral(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let add_up = |mut series: TimeSeries| {
        series.tags.set("integral", "1");
        let mut sum = 0.0;
        let mut add = |value: &f64| {
            if value.is_nan() {
                return f64::NAN;
            }
            sum += value;
            sum
        };
        let values = series.values.iter().map(&mut add).collect();
        let name = format!("integral({})", series.name);
        series.derived(name, values)
    };
    Ok(args.series(0).into_iter().map(add_up).collect::<Vec<_>>().into())
}

fn integral_by_interval(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let unit = args.text(1).to_owned();
    let seconds = parse_interval(&unit)?.saturating_abs();
    if seconds == 0 {
        return Err("the argument intervalUnit must be longer than zero".into());
    }
    let from = context.range.from;
    let add_up = |mut series: TimeSeries| {
        series.tags.set("integralByInterval", &*unit);
        let (mut sum, mut time) = (0.0, series.start);
        let step = series.step;
        let mut add = |value: &f64| {
            if (time - from).div_euclid(seconds) != (time - from - step).div_euclid(seconds) {
                sum = 0.0;
            }
            time += step;
            if !value.is_nan() {
                sum += value;
            }
            sum
        };
        let values = series.values.iter().map(&mut add).collect();
        let name = format!("integralByInterval({},'{unit}')", series.name);
        series.derived(name, values)
    };
    Ok(args.series(0).into_iter().map(add_up).collect::<Vec<_>>().into())
}
