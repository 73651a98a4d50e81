//! `join`: set operations on two lists of series, by their names.

use std::collections::HashSet;
use std::sync::Arc;

use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param};
use crate::series::TimeSeries;

const TYPES: &[Default] =
    &[Default::Text("AND"), Default::Text("OR"), Default::Text("XOR"), Default::Text("SUB")];

pub(super) const ALL: &[Function] = &[Function::new(
    "join",
    Group::Transform,
    &[
        Param::new("seriesA", Kind::Series),
        Param::new("seriesB", Kind::Series),
        Param::new("type", Kind::String).default(Default::Text("AND")).suggest(TYPES),
    ],
    join,
)
.about(
    "Combines two lists of series by name: AND returns those in both, OR those in any, SUB those only in the first, XOR those in only one.",
    "join(host.*.load, host.web*.load, 'SUB')",
)];

fn join(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let how = args.text(2).to_ascii_uppercase();
    let (mut a, mut b) = (args.series(0), args.series(1));
    let (in_a, in_b) = (names(&a), names(&b));
    match how.as_str() {
        "AND" => a.retain(|series| in_b.contains(&series.name)),
        "SUB" => a.retain(|series| !in_b.contains(&series.name)),
        "OR" | "XOR" => {
            if how == "XOR" {
                a.retain(|series| !in_b.contains(&series.name));
            }
            b.retain(|series| !in_a.contains(&series.name));
            a.append(&mut b);
        }
        _ => return Err(format!("the argument type is {how:?}; it must be one of AND, OR, XOR, SUB").into()),
    }
    Ok(a.into())
}

fn names(series: &[TimeSeries]) -> HashSet<Arc<str>> {
    series.iter().map(|series| Arc::clone(&series.name)).collect()
}
