//! `transformNull`.

use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::{general, python_float};

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
    "Puts a constant where values are unknown; with reference series, only where one of those is known.",
    "transformNull(server.errors, 0)",
)];

fn transform_null(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let default = args.float(1);
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
            series.map(|value| if value.is_nan() { default } else { value });
            continue;
        }
        series.tags.set("referenceSeries", "1");
        series.rename(format!("transformNull({},{shown},referenceSeries)", series.name));
        fill(series.values_mut(), &known, default);
    }
    Ok(series.into())
}

/// Puts the default where a reference is known. Of references that have more points than the series
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
