//! `unique`: returns the first series of each name.

use std::collections::HashSet;
use std::sync::Arc;

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};

pub(super) const ALL: &[Function] = &[Function::new(
    "unique",
    Group::FilterSeries,
    &[Param::new("seriesLists", Kind::Series).many()],
    unique,
)
.about("Returns the first series of each name.", "unique(host.*.load, host.web1.*)")];

fn unique(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let mut seen = HashSet::new();
    let mut series = args.series(0);
    series.retain(|series| seen.insert(Arc::clone(&series.name)));
    Ok(series.into())
}
