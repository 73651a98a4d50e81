//! `alias`: renames series.

use std::sync::Arc;

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES};
use crate::target::Literal;

pub(super) const ALL: &[Function] =
    &[Function::new("alias", Group::Alias, &[SERIES, Param::new("newName", Kind::String)], alias)
        .about("Renames series.", "alias(total.requests, 'Requests')")];

fn alias(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let name: Arc<str> = args.literal(1).map(Literal::python).unwrap_or_default().into();
    let mut series = args.series(0);
    series.iter_mut().for_each(|series| series.name = Arc::clone(&name));
    Ok(series.into())
}
