//! `group`, and grouping by components and tags.

use std::sync::Arc;

use super::aggregate::combined;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES, Value};
use crate::node;
use crate::series::TimeSeries;
use crate::tags::Tags;
use crate::target::Literal;

pub(super) const ALL: &[Function] = &[
    Function::new(
        "group",
        Group::Combine,
        &[Param::new("seriesLists", Kind::Series).optional().many()],
        |args, _| Ok(args.series(0).into()),
    )
    .about("Joins lists of series.", "group(host.*.cpu, host.*.load)"),
    Function::new(
        "groupByNode",
        Group::Combine,
        &[
            SERIES,
            Param::new("nodeNum", Kind::NodeOrTag),
            Param::new("callback", Kind::AggOrSeriesFunc).default(Default::Text("average")),
        ],
        |args, context| {
            let nodes: Vec<Literal> = args.literals(1).cloned().collect();
            let callback = args.text(2).to_owned();
            by_nodes(args.series(0), &nodes, &callback, context)
        },
    )
    .about("Combines the series that have the same component or tag.", "groupByNode(host.*.cpu.*, 1, 'sum')"),
    Function::new(
        "groupByNodes",
        Group::Combine,
        &[
            SERIES,
            Param::new("callback", Kind::AggOrSeriesFunc),
            Param::new("nodes", Kind::NodeOrTag).optional().many(),
        ],
        |args, context| {
            let nodes: Vec<Literal> = args.literals(2).cloned().collect();
            let callback = args.text(1).to_owned();
            by_nodes(args.series(0), &nodes, &callback, context)
        },
    )
    .about(
        "Combines the series that have the same components and tags.",
        "groupByNodes(host.*.cpu.*, 'sum', 1, 3)",
    ),
    Function::new(
        "groupByTags",
        Group::Combine,
        &[SERIES, Param::new("callback", Kind::AggOrSeriesFunc), Param::new("tags", Kind::Tag).many()],
        by_tags,
    )
    .about(
        "Combines the series that have the same values of some tags.",
        "groupByTags(seriesByTag('name=cpu'), 'average', 'dc')",
    ),
];

fn by_nodes(
    series: Vec<TimeSeries>,
    nodes: &[Literal],
    callback: &str,
    context: &mut Context<'_>,
) -> Outcome {
    let mut results = Vec::new();
    for (key, members) in node::grouped(series, |series| node::key(series, nodes.iter())) {
        let mut series = called_back(callback, members, context)?;
        series.name = key.into();
        results.push(series);
    }
    Ok(results.into())
}

fn called_back(
    callback: &str,
    members: Vec<TimeSeries>,
    context: &mut Context<'_>,
) -> Result<TimeSeries, Fault> {
    let result = if context.is_callback(callback) {
        context.call(callback, vec![Value::Series(members)])?.into_iter().next()
    } else {
        combined(members, callback, None, context)?
    };
    result.ok_or_else(|| format!("{callback} returns no series").into())
}

fn by_tags(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let callback = args.text(1).to_owned();
    let tags = args.texts(2);
    let series = args.series(0);
    let common = series.first().and_then(|first| first.tags.get("name")).map(Arc::<str>::from);
    let is_common = series.iter().all(|series| series.tags.get("name") == common.as_deref());
    let name = common.filter(|_| is_common).unwrap_or_else(|| Arc::from(&*callback));
    let is_by_name = tags.iter().any(|tag| tag == "name");
    let key = |series: &TimeSeries| {
        let value = |tag: &str| series.tags.get(tag).unwrap_or_default().to_owned();
        let others = tags.iter().filter(|tag| *tag != "name");
        let mut pairs: Vec<String> = others.map(|tag| format!("{tag}={}", value(tag))).collect();
        pairs.sort_unstable();
        let name = if is_by_name { value("name") } else { name.to_string() };
        std::iter::once(name).chain(pairs).collect::<Vec<_>>().join(";")
    };
    let mut results = Vec::new();
    for (key, members) in node::grouped(series, key) {
        let mut series = called_back(&callback, members, context)?;
        series.rename(key);
        series.tags = Tags::of(&series.name);
        results.push(series);
    }
    Ok(results.into())
}
