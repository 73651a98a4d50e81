//! carbonapi's short names of combining functions.

use crate::function::{Function, Group, Kind, Param};
use crate::functions::combine::all;

const PARAMS: &[Param] = &[Param::new("seriesLists", Kind::Series).many()];

pub(super) const ALL: &[Function] = &[
    Function::new("diff", Group::Combine, PARAMS, |args, context| all(args, context, "diff"))
        .about("The same as diffSeries.", "diff(total.requests, cached.requests)"),
    Function::new("max", Group::Combine, PARAMS, |args, context| all(args, context, "max"))
        .about("The same as maxSeries.", "max(host.*.cpu)"),
    Function::new("min", Group::Combine, PARAMS, |args, context| all(args, context, "min"))
        .about("The same as minSeries.", "min(host.*.cpu)"),
    Function::new("multiply", Group::Combine, PARAMS, |args, context| all(args, context, "multiply"))
        .about("The same as multiplySeries.", "multiply(price, amount)"),
    Function::new("stddev", Group::Combine, PARAMS, |args, context| all(args, context, "stddev"))
        .about("The same as stddevSeries.", "stddev(host.*.cpu)"),
];
