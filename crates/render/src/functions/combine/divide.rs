//! `divideSeries`: divides every series by one series. The result is unknown if the divisor is zero or
//! unknown.

use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::grid::Grid;
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "divideSeries",
    Group::Combine,
    &[Param::new("dividendSeriesList", Kind::Series), Param::new("divisorSeries", Kind::Series)],
    divide,
)
.about(
    "Divides every series by one series. The result is unknown if the divisor is zero or unknown.",
    "divideSeries(host.*.bad, total.requests)",
)];

fn divide(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let mut dividends = args.series(0);
    let divisors = args.series(1);
    let [divisor] = &divisors[..] else {
        if !divisors.is_empty() {
            return Err(format!("the divisor must be one series, but there are {}", divisors.len()).into());
        }
        for series in &mut dividends {
            series.rename(format!("divideSeries({},MISSING)", series.name));
            series.map(|_| f64::NAN);
        }
        return Ok(dividends.into());
    };
    context.may_hold_names(dividends.len(), divisor.name.len())?;
    let quotients = dividends
        .iter()
        .map(|dividend| quotient(dividend, divisor, context))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(quotients.into())
}

/// Divides one series by another.
pub(super) fn quotient(
    dividend: &TimeSeries,
    divisor: &TimeSeries,
    context: &Context<'_>,
) -> Result<TimeSeries, Fault> {
    let name = format!("divideSeries({},{})", dividend.name, divisor.name);
    zipped(name, dividend, divisor, context, ratio)
}

/// The quotient; unknown if the divisor is zero.
pub(super) fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor == 0.0 { f64::NAN } else { dividend / divisor }
}

/// Combines two series value by value.
pub(crate) fn zipped(
    name: String,
    first: &TimeSeries,
    second: &TimeSeries,
    context: &Context<'_>,
    of: impl Fn(f64, f64) -> f64,
) -> Result<TimeSeries, Fault> {
    let Some(grid) = Grid::of([first, second])? else { return Err("there are no series".into()) };
    let values = by_index(&grid.align(first), &grid.align(second), context, of)?;
    Ok(TimeSeries::made(name, grid.times(), values, context.x_files_factor))
}

/// Combines two columns by index. The result is as long as the longer one.
pub(super) fn by_index(
    first: &[f64],
    second: &[f64],
    context: &Context<'_>,
    of: impl Fn(f64, f64) -> f64,
) -> Result<Vec<f64>, Fault> {
    let len = first.len().max(second.len());
    context.count_points(len)?;
    let at = |column: &[f64], slot: usize| column.get(slot).copied().unwrap_or(f64::NAN);
    Ok((0..len).map(|slot| of(at(first, slot), at(second, slot))).collect())
}
