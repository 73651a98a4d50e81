//! Short names of combining functions.

use crate::function::{Function, Group, Kind, Param};
use crate::functions::combine::all;

const PARAMS: &[Param] = &[Param::new("seriesLists", Kind::Series).many()];

pub(super) const ALL: &[Function] = &[
    Function::new("diff", Group::Combine, PARAMS, |args, context| all(args, context, "diff"))
        .about("As diffSeries.", "diff(total.requests, cached.requests)"),
    Function::new("max", Group::Combine, PARAMS, |args, context| all(args, context, "max"))
        .about("As maxSeries.", "max(host.*.cpu)"),
    Function::new("min", Group::Combine, PARAMS, |args, context| all(args, context, "min"))
        .about("As minSeries.", "min(host.*.cpu)"),
    Function::new("multiply", Group::Combine, PARAMS, |args, context| all(args, context, "multiply"))
        .about("As multiplySeries.", "multiply(price, amount)"),
    Function::new("stddev", Group::Combine, PARAMS, |args, context| all(args, context, "stddev"))
        .about("As stddevSeries.", "stddev(host.*.cpu)"),
];
