//! `seriesByTag`. The evaluation handles it itself; this is only its declaration.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};

pub(super) const ALL: &[Function] = &[Function::new(
    "seriesByTag",
    Group::Special,
    &[Param::new("tagExpressions", Kind::String).many()],
    series_by_tag,
)
.about("Returns the series whose tags match all of the expressions.", "seriesByTag('name=cpu', 'dc=~a.*')")];

fn series_by_tag(_: &mut Args, _: &mut Context<'_>) -> Outcome {
    Err("seriesByTag cannot be called by another function".into())
}
