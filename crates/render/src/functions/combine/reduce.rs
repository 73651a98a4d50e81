//! `mapSeries` and `reduceSeries`.

use std::collections::HashMap;

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES, Value};
use crate::node;
use crate::series::TimeSeries;
use crate::target::Literal;

pub(super) const ALL: &[Function] = &[
    Function::new(
        "mapSeries",
        Group::Combine,
        &[SERIES, Param::new("mapNodes", Kind::NodeOrTag).many()],
        map,
    )
    .or(&["map"])
    .about("Groups series by components or tags, for reduceSeries.", "mapSeries(host.*.disk.*, 1)"),
    Function::new(
        "reduceSeries",
        Group::Combine,
        &[
            Param::new("seriesLists", Kind::Lists),
            Param::new("reduceFunction", Kind::String),
            Param::new("reduceNode", Kind::Node),
            Param::new("reduceMatchers", Kind::String).many(),
        ],
        reduce,
    )
    .or(&["reduce"])
    .about(
        "Calls a function for each group. Its arguments are the series whose component is one of the matchers.",
        "reduceSeries(mapSeries(host.*.disk.*, 1), 'asPercent', 3, 'used', 'size')",
    ),
];

fn map(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let nodes: Vec<Literal> = args.literals(1).cloned().collect();
    let groups = node::grouped(args.series(0), |series| node::key(series, nodes.iter()));
    Ok(Value::Lists(groups.into_iter().map(|(_, members)| members).collect()))
}

fn reduce(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let name = args.text(1).to_owned();
    let at = args.int(2);
    let matchers = args.texts(3);
    let mut order: Vec<String> = Vec::new();
    let mut slots: HashMap<String, Vec<Option<TimeSeries>>> = HashMap::new();
    for series in args.lists(0).into_iter().flatten() {
        let components: Vec<&str> = series.name.split('.').collect();
        let place = if at < 0 { at.saturating_add(components.len() as i64) } else { at };
        let component = usize::try_from(place).ok().and_then(|place| Some((place, *components.get(place)?)));
        let (place, component) = component.ok_or_else(|| format!("{} has no component {at}", series.name))?;
        let Some(matcher) = matchers.iter().position(|matcher| matcher == component) else { continue };
        let key = format!("{}.reduce.{name}", components[..place].join("."));
        let slots = slots.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            vec![None; matchers.len()]
        });
        slots[matcher] = Some(series);
    }
    let mut results = Vec::new();
    for key in order {
        let members = slots.remove(&key).unwrap_or_default();
        let mut values = Vec::new();
        for (member, matcher) in members.into_iter().zip(&matchers) {
            let series = member.ok_or_else(|| format!("{key} has no series for {matcher}"))?;
            values.push(Value::Series(vec![series]));
        }
        let reduced = context.call(&name, values)?.into_iter().next();
        let mut series = reduced.ok_or_else(|| format!("{name} returns no series"))?;
        series.name = key.into();
        results.push(series);
    }
    Ok(results.into())
}
