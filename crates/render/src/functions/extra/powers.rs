//! `powSeriesLists`: raises the first list of series to the power of the second, pair by pair.

use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::functions::combine::{pairs, zipped};
use crate::functions::transform::power;

pub(super) const ALL: &[Function] = &[Function::new(
    "powSeriesLists",
    Group::Combine,
    &[Param::new("sourceSeriesList", Kind::Series), Param::new("factorSeriesList", Kind::Series)],
    pow_series_lists,
)
.about(
    "Raises the first list of series to the power of the second, pair by pair.",
    "powSeriesLists(shop.*.base, shop.*.exponent)",
)];

fn pow_series_lists(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let mut results = Vec::new();
    for (base, exponent) in pairs(args)? {
        let name = format!("powSeries({},{})", base.name, exponent.name);
        results.push(zipped(name, &base, &exponent, context, power)?);
    }
    Ok(results.into())
}
