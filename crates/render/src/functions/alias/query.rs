//! `aliasQuery`: names each series after the last value of another target. The target is made from the
//! series' name.

use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::pattern::Pattern;
use crate::printf::one_number;

pub(super) const ALL: &[Function] = &[Function::new(
    "aliasQuery",
    Group::Alias,
    &[
        SERIES,
        Param::new("search", Kind::String),
        Param::new("replace", Kind::String),
        Param::new("newName", Kind::String),
    ],
    alias_query,
)
.about(
    "Names each series by the last value of another target. The target is made from the series' name.",
    "aliasQuery(channel.*.power, 'power', 'frequency', 'Channel %d MHz')",
)];

fn alias_query(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let pattern = Pattern::new(args.text(1))?;
    let replacement = pattern.replacement(args.text(2))?;
    let format = args.text(3).to_owned();
    let mut series = args.series(0);
    let mut is_missing = false;
    for series in &mut series {
        let query = pattern.replace_all(&series.name, &replacement)?;
        let answer = match context.target(&query) {
            Err(Fault::Missing) => {
                is_missing = true;
                continue;
            }
            answer => answer?,
        };
        let first = answer.first().ok_or_else(|| format!("the query {query:?} finds no series"))?;
        let last = Aggregate::Last.of(&first.values);
        if last.is_nan() {
            return Err(format!("the query {query:?} finds no value").into());
        }
        series.name = one_number(&format, last, first.is_whole)?.into();
    }
    if is_missing { Err(Fault::Missing) } else { Ok(series.into()) }
}
