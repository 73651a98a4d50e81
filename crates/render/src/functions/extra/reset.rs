//! `integralWithReset` and `scaleAfterTimestamp`.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::grid::Grid;
use crate::number::general;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[
    Function::new(
        "integralWithReset",
        Group::Transform,
        &[SERIES, Param::new("resettingSeries", Kind::Series)],
        integral_with_reset,
    )
    .about(
        "The running sum, reset to zero where the resetting series is above zero.",
        "integralWithReset(server.requests, server.restarts)",
    ),
    Function::new(
        "scaleAfterTimestamp",
        Group::Transform,
        &[SERIES, Param::new("factor", Kind::Float), Param::new("timestamp", Kind::Date)],
        scale_after,
    )
    .about(
        "Multiplies the points after a time by a constant.",
        "scaleAfterTimestamp(server.bytes, 8, '20240101')",
    ),
];

fn integral_with_reset(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let resets = args.series(1);
    let [reset] = &resets[..] else {
        return Err(format!(
            "the argument resettingSeries must be one series, but there are {}",
            resets.len()
        )
        .into());
    };
    let mut results = Vec::new();
    for mut series in args.series(0) {
        let Some(grid) = Grid::of([&series, reset])? else { continue };
        let (values, resets) = (grid.spread(&series), grid.spread(reset));
        let mut sum = 0.0;
        let mut add = |(value, reset): (&f64, &f64)| {
            if *reset > 0.0 {
                sum = 0.0;
            } else if value.is_nan() {
                return f64::NAN;
            } else {
                sum += value;
            }
            sum
        };
        let sums = values.iter().zip(resets.iter()).map(&mut add).collect();
        series.tags.set("integralWithReset", &*reset.name);
        let name = format!("integralWithReset({},{})", series.name, reset.name);
        let (start, end, step) = grid.times();
        results.push(TimeSeries { start, end, step, ..series.derived(name, sums) });
    }
    Ok(results.into())
}

fn scale_after(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let factor = args.float(1);
    let request = context.request();
    let shown = args.text(2).to_owned();
    let time = crate::attime::parse(&shown, request.now, &request.zone).map_err(|error| error.to_string())?;
    let mut series = args.series(0);
    for series in &mut series {
        // In carbonapi this is `scale` with a time, and has its tag.
        series.tags.set("scale", general(factor));
        series.rename(format!("scale({},{},{shown})", series.name, general(factor)));
        let (start, step) = (series.start, series.step);
        for (at, value) in (0i64..).zip(series.values_mut()) {
            if start + at * step >= time {
                *value *= factor;
            }
        }
    }
    Ok(series.into())
}
