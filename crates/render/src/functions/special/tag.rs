//! `seriesByTag`: a leaf of targets, which evaluation reads itself; here for its declaration.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};

pub(super) const ALL: &[Function] = &[Function::new(
    "seriesByTag",
    Group::Special,
    &[Param::new("tagExpressions", Kind::String).many()],
    series_by_tag,
)
.about("The series whose tags match all of the expressions.", "seriesByTag('name=cpu', 'dc=~a.*')")];

fn series_by_tag(_: &mut Args, _: &mut Context<'_>) -> Outcome {
    Err("seriesByTag cannot be called by another function".into())
}
