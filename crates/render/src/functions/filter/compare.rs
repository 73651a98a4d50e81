//! Functions that select series by an aggregate and a threshold.

use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Function, Group, Kind, Outcome, Param, SERIES, Value};

const LIMIT: &[Param] = &[SERIES, Param::new("n", Kind::Float)];
const OPERATORS: &[&str] = &["!=", "<", "<=", "=", ">", ">="];

pub(super) const ALL: &[Function] = &[
    Function::new(
        "filterSeries",
        Group::FilterSeries,
        &[
            SERIES,
            Param::new("func", Kind::AggFunc),
            Param::new("operator", Kind::String).options(OPERATORS),
            Param::new("threshold", Kind::Float),
        ],
        |args, _| {
            let (method, _) = args.aggregate(1)?;
            let operator = args.text(2).to_owned();
            Ok(kept(args, method, &operator, 3))
        },
    )
    .about(
        "Returns the series whose aggregate compares to a threshold in this way.",
        "filterSeries(host.*.load, 'max', '>', 10)",
    ),
    Function::new("averageAbove", Group::FilterSeries, LIMIT, |args, _| {
        Ok(kept(args, Aggregate::Average, ">", 1))
    })
    .about("Returns the series whose mean is above n.", "averageAbove(host.*.load, 5)"),
    Function::new("averageBelow", Group::FilterSeries, LIMIT, |args, _| {
        Ok(kept(args, Aggregate::Average, "<=", 1))
    })
    .about(
        "Returns the series whose mean is n or below, and those without values.",
        "averageBelow(host.*.load, 5)",
    ),
    Function::new("currentAbove", Group::FilterSeries, LIMIT, |args, _| {
        Ok(kept(args, Aggregate::Last, ">", 1))
    })
    .about("Returns the series whose last value is above n.", "currentAbove(host.*.load, 5)"),
    Function::new("currentBelow", Group::FilterSeries, LIMIT, |args, _| {
        Ok(kept(args, Aggregate::Last, "<=", 1))
    })
    .about(
        "Returns the series whose last value is n or below, and those without values.",
        "currentBelow(host.*.load, 5)",
    ),
    Function::new("maximumAbove", Group::FilterSeries, LIMIT, |args, _| {
        Ok(kept(args, Aggregate::Max, ">", 1))
    })
    .about("Returns the series whose largest value is above n.", "maximumAbove(host.*.load, 5)"),
    Function::new("maximumBelow", Group::FilterSeries, LIMIT, |args, _| {
        Ok(kept(args, Aggregate::Max, "<=", 1))
    })
    .about(
        "Returns the series whose largest value is n or below, and those without values.",
        "maximumBelow(host.*.load, 5)",
    ),
    Function::new("minimumAbove", Group::FilterSeries, LIMIT, |args, _| {
        Ok(kept(args, Aggregate::Min, ">", 1))
    })
    .about("Returns the series whose smallest value is above n.", "minimumAbove(host.*.load, 5)"),
    Function::new("minimumBelow", Group::FilterSeries, LIMIT, |args, _| {
        Ok(kept(args, Aggregate::Min, "<=", 1))
    })
    .about(
        "Returns the series whose smallest value is n or below, and those without values.",
        "minimumBelow(host.*.load, 5)",
    ),
    Function::new(
        "removeEmptySeries",
        Group::FilterSeries,
        &[SERIES, Param::new("xFilesFactor", Kind::Float).optional()],
        remove_empty,
    )
    .about(
        "Returns the series in which at least this share of the slots is known.",
        "removeEmptySeries(host.*.load, 0.5)",
    ),
];

fn kept(args: &mut Args, method: Aggregate, operator: &str, threshold: usize) -> Value {
    let threshold = args.float(threshold);
    let passes = |value: f64| match operator {
        "=" => value == threshold,
        "!=" => value != threshold,
        ">" => value > threshold,
        ">=" => value >= threshold,
        // An unknown aggregate counts as below any threshold.
        "<" => value.is_nan() || value < threshold,
        _ => value.is_nan() || value <= threshold,
    };
    args.series(0).into_iter().filter(|series| passes(method.of(&series.values))).collect::<Vec<_>>().into()
}

fn remove_empty(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let factor = args.given_float(1).unwrap_or(0.0);
    let is_kept = |values: &[f64]| {
        let known = Aggregate::Count.of(values);
        known > 0.0 && known / values.len() as f64 >= factor
    };
    Ok(args.series(0).into_iter().filter(|series| is_kept(&series.values)).collect::<Vec<_>>().into())
}
