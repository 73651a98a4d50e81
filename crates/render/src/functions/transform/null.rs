//! `transformNull`: replaces unknown points by a constant. If there are reference series, only where one of
//! these is known.

use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::{general, python_float};
use crate::series::TimeSeries;

pub(super) const ALL: &[Function] = &[Function::new(
    "transformNull",
    Group::Transform,
    &[
        SERIES,
        Param::new("default", Kind::Float).default(Default::Integer(0)),
        Param::new("referenceSeries", Kind::Series).optional(),
    ],
    transform_null,
)
.about(
    "Replaces unknown points by a constant. With reference series, only where one of these is known.",
    "transformNull(server.errors, 0)",
)];

fn transform_null(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let (default, is_given) = (args.float(1), args.given_float(1).is_some());
    let tag = args.given_float(1).map_or_else(|| "0".to_owned(), python_float);
    let references = args.series(2);
    let slots = references.iter().map(|series| series.values.len()).max().unwrap_or(0);
    let is_known =
        |slot: usize| references.iter().any(|s| s.values.get(slot).is_some_and(|value| !value.is_nan()));
    let known: Vec<bool> = (0..slots).map(is_known).collect();
    let mut series = args.series(0);
    for series in &mut series {
        series.tags.set("transformNull", &*tag);
        let shown = general(default);
        if references.is_empty() {
            series.rename(format!("transformNull({},{shown})", series.name));
            let is_whole = is_whole(series, is_given);
            series.map(|value| if value.is_nan() { default } else { value });
            series.is_whole = is_whole;
            continue;
        }
        series.tags.set("referenceSeries", "1");
        series.rename(format!("transformNull({},{shown},referenceSeries)", series.name));
        let is_whole = is_whole(series, is_given);
        fill(series.values_mut(), &known, default);
        series.is_whole = is_whole;
    }
    Ok(series.into())
}

/// Whether the values stay integers in graphite-web, where the default is a float if it is given, and the
/// integer 0 otherwise.
fn is_whole(series: &TimeSeries, is_given: bool) -> bool {
    let mut known = series.values.iter().filter(|value| !value.is_nan()).peekable();
    let is_whole = series.is_whole || known.peek().is_none();
    is_whole && (!is_given || known.count() == series.values.len())
}

/// Replaces unknown values where a reference is known. If the references have more points than the series,
/// graphite-web keeps the last results, as many as the series has points.
fn fill(values: &mut Vec<f64>, known: &[bool], default: f64) {
    let len = values.len();
    values.resize(len.max(known.len()), f64::NAN);
    for (value, is_known) in values.iter_mut().zip(known) {
        if value.is_nan() && *is_known {
            *value = default;
        }
    }
    values.drain(..values.len() - len);
}
