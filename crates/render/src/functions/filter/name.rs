//! `grep` and `exclude`.

use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::pattern::Pattern;

const PATTERN: &[Param] = &[SERIES, Param::new("pattern", Kind::String)];

pub(super) const ALL: &[Function] = &[
    Function::new("grep", Group::FilterSeries, PATTERN, |args, _| matching(args, true)).about(
        "Returns the series whose name matches a regular expression.",
        "grep(host.*.load, 'web[0-9]+')",
    ),
    Function::new("exclude", Group::FilterSeries, PATTERN, |args, _| matching(args, false)).about(
        "Returns the series whose name does not match a regular expression.",
        "exclude(host.*.load, 'test')",
    ),
];

fn matching(args: &mut Args, wanted: bool) -> Outcome {
    let pattern = Pattern::new(args.text(1))?;
    let mut kept = Vec::new();
    for series in args.series(0) {
        if pattern.is_match(&series.name)? == wanted {
            kept.push(series);
        }
    }
    Ok(kept.into())
}
