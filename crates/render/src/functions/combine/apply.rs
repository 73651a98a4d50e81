//! `applyByNode`: evaluates a target for each different prefix of the names, up to a component. % in the
//! target stands for the prefix.

use std::collections::BTreeSet;

use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::target::parse;

pub(super) const ALL: &[Function] = &[Function::new(
    "applyByNode",
    Group::Combine,
    &[
        SERIES,
        Param::new("nodeNum", Kind::Node),
        Param::new("templateFunction", Kind::String),
        Param::new("newName", Kind::String).optional(),
    ],
    apply_by_node,
)
.about(
    "Evaluates a target for each different prefix of the names, up to a component. % in the target stands for the prefix.",
    "applyByNode(host.*.disk.used, 1, 'divideSeries(%.disk.used, %.disk.size)')",
)];

fn apply_by_node(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let (node, template) = (args.int(1), args.text(2).to_owned());
    // The names of series need not be paths, but the template must be a target.
    parse(&template.replace('%', "a")).map_err(|error| format!("the argument templateFunction: {error}"))?;
    let new_name = args.given_text(3).map(str::to_owned).filter(|name| !name.is_empty());
    let series = args.series(0);
    let prefix = |name: &str| {
        let components: Vec<&str> = name.split('.').collect();
        let end = node.saturating_add(1);
        let end = if end < 0 { end.saturating_add(components.len() as i64).max(0) } else { end };
        let end = usize::try_from(end).unwrap_or(0).min(components.len());
        components[..end].join(".")
    };
    let prefixes: BTreeSet<String> = series.iter().map(|series| prefix(&series.name)).collect();
    let Some(last) = series.last() else { return Ok(Vec::new().into()) };
    let (mut results, mut is_missing) = (Vec::new(), false);
    let mut named = 0;
    for prefix in prefixes {
        let applied = match context.target(&template.replace('%', &prefix)) {
            Err(Fault::Missing) => {
                is_missing = true;
                continue;
            }
            applied => applied?,
        };
        for mut series in applied {
            if let Some(name) = &new_name {
                series.name = name.replace('%', &prefix).into();
                named += series.name.len();
                context.may_hold_names(1, named)?;
            }
            series.path_expression = prefix.as_str().into();
            (series.start, series.end) = (last.start, last.end);
            results.push(series);
        }
    }
    if is_missing { Err(Fault::Missing) } else { Ok(results.into()) }
}
