//! Components and tags of series, as arguments select them.

use crate::series::TimeSeries;
use crate::target::{Expr, ExprKind, Literal, parse_beginning};

/// The components and tags of a series that the nodes select, joined by dots. A missing one is empty.
pub(crate) fn key<'a>(series: &TimeSeries, nodes: impl Iterator<Item = &'a Literal>) -> String {
    let path = first_path(&series.name);
    let path = path.as_deref().unwrap_or(&series.name);
    let mut key = String::new();
    for (index, node) in nodes.enumerate() {
        if index > 0 {
            key.push('.');
        }
        key.push_str(component(path, node).or_else(|| series.tags.get(&node.python())).unwrap_or_default());
    }
    key
}

fn component<'a>(path: &'a str, node: &Literal) -> Option<&'a str> {
    let Literal::Integer(number) = node else { return None };
    let path = path.split(';').next().unwrap_or_default();
    let steps = usize::try_from(number.unsigned_abs()).ok()?;
    if *number < 0 { path.rsplit('.').nth(steps - 1) } else { path.split('.').nth(steps) }
}

/// The first path in a name that looks like a call.
fn first_path(name: &str) -> Option<String> {
    fn path(expr: &Expr) -> Option<&str> {
        match &expr.kind {
            ExprKind::Path(path) => Some(path),
            ExprKind::Call { args, .. } => path(args.first()?),
            ExprKind::Template { .. } | ExprKind::Literal(_) => None,
        }
    }
    if !name.ends_with(')') {
        return None;
    }
    path(&parse_beginning(name).ok()?.expr).map(str::to_owned)
}

/// Groups series by a key, in the order in which keys first occur.
pub(crate) fn grouped(
    series: Vec<TimeSeries>,
    key: impl Fn(&TimeSeries) -> String,
) -> Vec<(String, Vec<TimeSeries>)> {
    let mut places = std::collections::HashMap::new();
    let mut groups: Vec<(String, Vec<TimeSeries>)> = Vec::new();
    for series in series {
        let key = key(&series);
        match places.get(&key) {
            Some(place) => {
                let (_, group): &mut (String, Vec<TimeSeries>) = &mut groups[*place];
                group.push(series);
            }
            None => {
                places.insert(key.clone(), groups.len());
                groups.push((key, vec![series]));
            }
        }
    }
    groups
}
