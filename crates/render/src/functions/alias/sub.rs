//! `aliasSub`: replaces the matches of a regular expression in names. \1 is its first group.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::pattern::Pattern;

pub(super) const ALL: &[Function] = &[Function::new(
    "aliasSub",
    Group::Alias,
    &[SERIES, Param::new("search", Kind::String), Param::new("replace", Kind::String)],
    alias_sub,
)
.about(
    "Replaces the matches of a regular expression in names. \\1 is its first group.",
    "aliasSub(host.*.load, '^host.([^.]+).*', '\\1')",
)];

fn alias_sub(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let pattern = Pattern::new(args.text(1))?;
    let replacement = pattern.replacement(args.text(2))?;
    let mut series = args.series(0);
    let mut named = 0;
    for series in &mut series {
        series.name = pattern.replace_all(&series.name, &replacement)?.into();
        named += series.name.len();
        context.may_hold_names(1, named)?;
    }
    Ok(series.into())
}
