//! `stacked`: draws series on top of each other, and on top of those of earlier targets with the same
//! stack.

use std::rc::Rc;

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

const DEFAULT: &str = "__DEFAULT__";

pub(super) const ALL: &[Function] = &[Function::new(
    "stacked",
    Group::Graph,
    &[SERIES, Param::new("stack", Kind::String).optional().alias("stackName")],
    stacked,
)
.about(
    "Draws series on top of each other, and on top of those of earlier targets with the same stack.",
    "stacked(host.*.cpu)",
)];

fn stacked(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let stack = args.given_text(1).unwrap_or(DEFAULT).to_owned();
    let stacks = Rc::clone(context.stacks.get_or_insert_default());
    let mut stacks = stacks.borrow_mut();
    let totals = stacks.entry(stack.clone()).or_default();
    let pile = |mut series: TimeSeries| {
        let is_whole = series.is_whole && totals.is_empty();
        if totals.len() < series.values.len() {
            totals.resize(series.values.len(), 0.0);
        }
        let add = |(total, value): (&mut f64, &f64)| {
            if value.is_nan() {
                return f64::NAN;
            }
            *total += value;
            *total
        };
        let values = totals.iter_mut().zip(series.values.iter()).map(add).collect();
        let mut name = series.name.to_string();
        if stack == DEFAULT {
            series.tags.set("stacked", &*stack);
            name = format!("stacked({name})");
        }
        let mut series = series.derived(name, values).whole(is_whole);
        series.options.stacked = true;
        series
    };
    let series: Vec<TimeSeries> = args.series(0).into_iter().map(pile).collect();
    Ok(series.into())
}
