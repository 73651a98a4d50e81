//! The durations and whole numbers in requests.

use serde_json::Value;

use super::time::{Duration, Unit};

/// A duration as an object of `value` and `unit`.
pub(super) fn duration(value: &Value) -> Result<Duration, String> {
    at_least(1, value)
}

/// A duration of at least this many units.
pub(super) fn at_least(least: i64, value: &Value) -> Result<Duration, String> {
    let count = value.get("value").map_or(Some(0), number).filter(|count| *count >= least);
    let count = count.ok_or_else(|| format!("value must be greater than or equal to {least}"))?;
    let name = value.get("unit").and_then(Value::as_str).ok_or("unit may not be null")?;
    let unit = Unit::named(name).ok_or_else(|| no_unit(name))?;
    Ok(Duration { value: count, unit })
}

/// The message for an unknown name of a unit.
pub(super) fn no_unit(name: &str) -> String {
    format!(
        "{name} is not a valid time unit, must be one of MILLISECONDS,SECONDS,MINUTES,HOURS,DAYS,WEEKS,MONTHS,YEARS"
    )
}

/// A whole number. A text that contains one counts too.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|real| real as i64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
