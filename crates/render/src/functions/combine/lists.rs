//! Functions that combine two lists of series pair by pair.

use super::aggregate::combined;
use super::divide::quotient;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::series::TimeSeries;

const FIRST: Param = Param::new("seriesListFirstPos", Kind::Series);
const SECOND: Param = Param::new("seriesListSecondPos", Kind::Series);

pub(super) const ALL: &[Function] = &[
    Function::new(
        "aggregateSeriesLists",
        Group::Combine,
        &[
            FIRST,
            SECOND,
            Param::new("func", Kind::AggFunc),
            Param::new("xFilesFactor", Kind::Float).optional(),
        ],
        |args, context| {
            let method = args.text(2).to_owned();
            let factor = args.given_float(3);
            aggregated(args, context, &method, factor)
        },
    )
    .about(
        "Combines two lists of series pair by pair.",
        "aggregateSeriesLists(host.*.sent, host.*.received, 'sum')",
    ),
    Function::new("sumSeriesLists", Group::Combine, &[FIRST, SECOND], |a, c| aggregated(a, c, "sum", None))
        .callback()
        .about("Adds two lists of series pair by pair.", "sumSeriesLists(host.*.sent, host.*.received)"),
    Function::new("diffSeriesLists", Group::Combine, &[FIRST, SECOND], |a, c| aggregated(a, c, "diff", None))
        .callback()
        .about(
            "Subtracts the second list of series from the first, pair by pair.",
            "diffSeriesLists(host.*.all, host.*.bad)",
        ),
    Function::new("multiplySeriesLists", Group::Combine, &[FIRST, SECOND], |a, c| {
        aggregated(a, c, "multiply", None)
    })
    .callback()
    .about("Multiplies two lists of series pair by pair.", "multiplySeriesLists(shop.*.price, shop.*.sold)"),
    Function::new(
        "divideSeriesLists",
        Group::Combine,
        &[Param::new("dividendSeriesList", Kind::Series), Param::new("divisorSeriesList", Kind::Series)],
        divided,
    )
    .about(
        "Divides the first list of series by the second, pair by pair.",
        "divideSeriesLists(host.*.bad, host.*.all)",
    ),
];

/// The series of the two arguments as pairs.
pub(crate) fn pairs(args: &mut Args) -> Result<Vec<(TimeSeries, TimeSeries)>, Fault> {
    let (first, second) = (args.series(0), args.series(1));
    if first.len() != second.len() {
        let lengths = format!("{} and {}", first.len(), second.len());
        return Err(format!("the two lists must have the same number of series, but have {lengths}").into());
    }
    Ok(first.into_iter().zip(second).collect())
}

fn aggregated(args: &mut Args, context: &mut Context<'_>, method: &str, factor: Option<f64>) -> Outcome {
    let mut results = Vec::new();
    for (first, second) in pairs(args)? {
        let names = format!("{},{}", first.name, second.name);
        if let Some(mut series) = combined(vec![first, second], method, factor, context)? {
            let kind = series.name.split("Series(").next().unwrap_or_default();
            series.name = format!("{kind}Series({names})").into();
            results.push(series);
        }
    }
    Ok(results.into())
}

fn divided(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let quotients = pairs(args)?
        .iter()
        .map(|(dividend, divisor)| quotient(dividend, divisor, context))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(quotients.into())
}
