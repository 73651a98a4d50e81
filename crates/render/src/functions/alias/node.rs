//! `aliasByNode` and `aliasByTags`.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::node;
use crate::target::Literal;

pub(super) const ALL: &[Function] = &[
    Function::new(
        "aliasByNode",
        Group::Alias,
        &[SERIES, Param::new("nodes", Kind::NodeOrTag).many()],
        by_node,
    )
    .about(
        "Names series by components of their path, counted from 0, and by tags.",
        "aliasByNode(host.*.cpu.*, 1, -1)",
    ),
    Function::new(
        "aliasByTags",
        Group::Alias,
        &[SERIES, Param::new("tags", Kind::NodeOrTag).many()],
        by_node,
    )
    .about(
        "Names series by tags and by components of their path.",
        "aliasByTags(seriesByTag('name=cpu'), 'host')",
    ),
];

fn by_node(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let nodes: Vec<Literal> = args.literals(1).cloned().collect();
    let mut series = args.series(0);
    series.iter_mut().for_each(|series| series.name = node::key(series, nodes.iter()).into());
    Ok(series.into())
}
