//! `areaBetween`: draws the area between two series.

use std::sync::Arc;

use crate::context::Context;
use crate::function::{Args, Function, Group, Outcome, SERIES};

pub(super) const ALL: &[Function] = &[Function::new("areaBetween", Group::Graph, &[SERIES], area_between)
    .about("Draws the area between two series.", "areaBetween(server.load.{min,max})")];

fn area_between(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let mut series = args.series(0);
    let [lower, upper] = &mut series[..] else {
        return Err(format!("needs exactly two series, but got {}", series.len()).into());
    };
    (lower.options.stacked, lower.options.invisible, upper.options.stacked) = (true, true, true);
    upper.tags.set("areaBetween", "1");
    upper.name = format!("areaBetween({})", upper.path_expression).into();
    lower.tags = upper.tags.clone();
    lower.name = Arc::clone(&upper.name);
    Ok(series.into())
}
