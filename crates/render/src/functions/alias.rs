//! Other names for series.

use std::sync::Arc;

use crate::function::{Args, Function, Kind, Need, Param};
use crate::request::Request;
use crate::series::TimeSeries;
use crate::target::{Expr, ExprKind, Literal, parse};

/// `alias(seriesList, newName)`.
pub(crate) const ALIAS: Function = Function {
    names: &["alias"],
    params: &[
        Param { name: "seriesList", kind: Kind::Series, need: Need::Once },
        Param { name: "newName", kind: Kind::String, need: Need::Once },
    ],
    eval: alias,
};

/// `aliasByNode(seriesList, node…)`: components and tags, joined by dots.
pub(crate) const ALIAS_BY_NODE: Function = Function {
    names: &["aliasByNode", "aliasByTags"],
    params: &[
        Param { name: "seriesList", kind: Kind::Series, need: Need::Once },
        Param { name: "nodes", kind: Kind::NodeOrTag, need: Need::Some },
    ],
    eval: alias_by_node,
};

fn alias(mut args: Args, _: &Request) -> Result<Vec<TimeSeries>, String> {
    let name: Arc<str> = args.text(1).into();
    let rename = |series| TimeSeries { name: Arc::clone(&name), ..series };
    Ok(args.series(0).into_iter().map(rename).collect())
}

fn alias_by_node(mut args: Args, _: &Request) -> Result<Vec<TimeSeries>, String> {
    let mut series = args.series(0);
    for series in &mut series {
        let nodes: Vec<String> = args.literals(1).map(|node| node_or_tag(series, node)).collect();
        series.name = nodes.join(".").into();
    }
    Ok(series)
}

/// A component of the first path in the name, or a tag; empty when there is none.
fn node_or_tag(series: &TimeSeries, node: &Literal) -> String {
    if let Literal::Integer(number) = node {
        let path = first_path(&series.name);
        let path = path.split(';').next().unwrap_or_default();
        let steps = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
        let component =
            if *number < 0 { path.rsplit('.').nth(steps - 1) } else { path.split('.').nth(steps) };
        if let Some(component) = component {
            return component.to_owned();
        }
    }
    series.tags.get(&node.python()).unwrap_or_default().to_owned()
}

/// The first path inside a name that looks like a call, else the name itself.
fn first_path(name: &str) -> String {
    fn path(expr: &Expr) -> Option<&str> {
        match &expr.kind {
            ExprKind::Path(path) => Some(path),
            ExprKind::Call { args, .. } => args.iter().find_map(path),
            ExprKind::Template { body, .. } => path(body),
            ExprKind::Literal(_) => None,
        }
    }
    if !name.ends_with(')') {
        return name.to_owned();
    }
    let parsed = parse(name);
    parsed.ok().as_ref().and_then(|target| path(&target.expr)).unwrap_or(name).to_owned()
}
