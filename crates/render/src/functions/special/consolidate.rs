//! Functions that change how values are combined into a longer step: `consolidateBy`, `cumulative`,
//! `setXFilesFactor`.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::python_float;
use crate::series::Consolidation;

const FUNCTIONS: &[&str] = &["sum", "average", "avg", "avg_zero", "min", "max", "first", "last"];

pub(super) const ALL: &[Function] = &[
    Function::new(
        "consolidateBy",
        Group::Special,
        &[SERIES, Param::new("consolidationFunc", Kind::String).options(FUNCTIONS)],
        |args, _| {
            let name = args.text(1).to_owned();
            consolidate_by(args, &name)
        },
    )
    .about(
        "Sets how points are combined if there are more of them than the graph is wide.",
        "consolidateBy(server.requests, 'sum')",
    ),
    Function::new("cumulative", Group::Special, &[SERIES], |args, _| consolidate_by(args, "sum")).about(
        "Sums up points if there are more of them than the graph is wide.",
        "cumulative(server.requests)",
    ),
    Function::new(
        "setXFilesFactor",
        Group::Special,
        &[SERIES, Param::new("xFilesFactor", Kind::Float)],
        set_x_files_factor,
    )
    .or(&["xFilesFactor"])
    .about(
        "Sets the share of points that must be known in a combined point, for the rest of the request.",
        "setXFilesFactor(server.load, 0.5)",
    ),
];

fn consolidate_by(args: &mut Args, name: &str) -> Outcome {
    let consolidation =
        Consolidation::named(name).ok_or_else(|| format!("there is no consolidation {name:?}"))?;
    let mut series = args.series(0);
    for series in &mut series {
        series.consolidation = consolidation;
        series.tags.set("consolidateBy", name);
        series.rename(format!("consolidateBy({},\"{name}\")", series.name));
    }
    Ok(series.into())
}

fn set_x_files_factor(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let factor = args.float(1);
    context.x_files_factor = factor;
    let mut series = args.series(0);
    for series in &mut series {
        series.x_files_factor = factor;
        series.tags.set("xFilesFactor", python_float(factor));
    }
    Ok(series.into())
}
