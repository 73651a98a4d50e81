//! `exponentialMovingAverage`: a moving mean in which older points count less. It starts with the mean of
//! the window before the graph.

use super::moving::{WINDOW, Window, earlier};
use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Function, Group, Outcome, SERIES};
use crate::number::rounded;
use crate::series::TimeSeries;
use crate::target::Literal;

pub(super) const ALL: &[Function] = &[Function::new(
    "exponentialMovingAverage",
    Group::Calculate,
    &[SERIES, WINDOW],
    exponential_moving_average,
)
.or(&["ewma", "exponentialWeightedMovingAverage"])
.reads(earlier)
.about(
    "A moving mean in which older points count less. It starts with the mean of the window before the graph.",
    "exponentialMovingAverage(server.load, '10min')",
)];

fn exponential_moving_average(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let series = args.series(0);
    if series.is_empty() {
        return Ok(series.into());
    }
    let window = Window::of(args, &series)?;
    let size = match args.literal(1) {
        Some(Literal::Integer(points)) => *points as f64,
        Some(Literal::Float(points)) => points.trunc(),
        _ => window.seconds as f64,
    };
    let weight = 2.0 / (size + 1.0);
    let fold = |mut series: TimeSeries| {
        let points = window.points(&series).min(series.values.len());
        let (before, values) = series.values.split_at(points);
        let seed = Aggregate::Average.of(before);
        let mut mean = if seed.is_nan() { 0.0 } else { seed };
        let mut means = Vec::with_capacity(values.len() + 1);
        means.push(rounded(mean, 6));
        for value in values {
            if value.is_nan() {
                means.push(f64::NAN);
            } else {
                mean = weight * value + (1.0 - weight) * mean;
                means.push(rounded(mean, 6));
            }
        }
        series.tags.set("exponentialMovingAverage", &*window.tag);
        let name = format!("exponentialMovingAverage({},{})", series.name, window.shown);
        TimeSeries { start: series.start + window.seconds, ..series.derived(name, means) }
    };
    Ok(context.again(context.range.earlier(window.seconds))?.into_iter().map(fold).collect::<Vec<_>>().into())
}
