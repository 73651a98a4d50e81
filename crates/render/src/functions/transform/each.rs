//! Changes every value of series, with their names and tags.

use crate::function::{Args, Outcome};

/// The type of the new values in graphite-web.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Float,
    Integer,
    /// The type of the values before.
    Same,
}

/// Renames each series, sets a tag (unless its value is empty), and changes every value.
pub(super) fn each(
    args: &mut Args,
    (tag, value): (&str, &str),
    name: impl Fn(&str) -> String,
    number: Number,
    change: impl Fn(f64) -> f64,
) -> Outcome {
    let mut series = args.series(0);
    for series in &mut series {
        if !value.is_empty() {
            series.tags.set(tag, value);
        }
        series.rename(name(&series.name));
        let was_whole = series.is_whole;
        series.map(&change);
        series.is_whole = number == Number::Integer || number == Number::Same && was_whole;
    }
    Ok(series.into())
}
