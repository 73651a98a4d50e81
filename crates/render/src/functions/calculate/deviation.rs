//! `stdev`: the standard deviation of the last points. It is unknown if too few of them are known.

use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "stdev",
    Group::Calculate,
    &[
        SERIES,
        Param::new("points", Kind::Integer),
        Param::new("windowTolerance", Kind::Float).default(Default::Float(0.1)),
    ],
    stdev,
)
.about(
    "The standard deviation of the last points. It is unknown if too few of them are known.",
    "stdev(server.load, 5)",
)];

fn stdev(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let (points, tolerance) = (args.int(1), args.float(2));
    let size = usize::try_from(points).map_err(|_| "the argument points must not be negative")?;
    let deviate = |mut series: TimeSeries| {
        series.tags.set("stdev", points.to_string());
        let values = deviations(&series.values, size, tolerance);
        let name = format!("stdev({},{points})", series.name);
        series.derived(name, values)
    };
    Ok(args.series(0).into_iter().map(deviate).collect::<Vec<_>>().into())
}

/// Uses running sums as Graphite does, with their rounding errors. The result is unknown if rounding makes the
/// variance negative, and if there are no points.
fn deviations(values: &[f64], size: usize, tolerance: f64) -> Vec<f64> {
    let (mut known, mut sum, mut squares) = (0.0, 0.0, 0.0);
    let step = |(at, value): (usize, &f64)| {
        if let Some(gone) = at.checked_sub(size).map(|gone| values[gone]).filter(|gone| !gone.is_nan()) {
            known -= 1.0;
            sum -= gone;
            squares -= gone * gone;
        }
        if !value.is_nan() {
            known += 1.0;
            sum += value;
            squares += value * value;
        }
        if known > 0.0 && known / size as f64 >= tolerance {
            (known * squares - sum * sum).sqrt() / known
        } else {
            f64::NAN
        }
    };
    values.iter().enumerate().map(step).collect()
}
