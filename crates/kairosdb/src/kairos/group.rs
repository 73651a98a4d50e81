//! How series and points are grouped.

use serde_json::{Map, Value, json};

use super::duration::{duration, number};
use super::time::{Duration, Unit};
use crate::PARTS_MAX;

/// One grouping of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupBy {
    /// By the values of tags.
    Tag(Vec<String>),
    /// By the time since the start: this many groups of this length. After the last group, the first one is used
    /// again.
    Time(Duration, i64),
    /// By the value, in steps of this size.
    Value(i64),
    /// By the bins between these numbers.
    Bin(Vec<f64>),
}

/// The key of a point's group in one grouping.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Tags(Vec<String>),
    Number(i64),
}

impl GroupBy {
    /// Reads a grouping.
    ///
    /// # Errors
    /// The error says what is wrong with it.
    pub(super) fn of(value: &Value) -> Result<Self, String> {
        let Value::Object(group) = value else { return Err("must be an object.".to_owned()) };
        let name = group.get("name").and_then(Value::as_str).unwrap_or_default();
        only(name, group)?;
        match name {
            "tag" => Ok(Self::Tag(texts(group)?)),
            "time" => {
                let size = group.get("range_size").ok_or("range_size may not be empty.")?;
                let size = duration(size).map_err(|text| format!("range_size.{text}"))?;
                let count = group.get("group_count").and_then(number).filter(|count| *count > 0);
                Ok(Self::Time(size, count.ok_or("group_count must be greater than or equal to 1.")?))
            }
            "value" => {
                let size = group.get("range_size").and_then(number).filter(|size| *size > 0);
                Ok(Self::Value(size.ok_or("range_size must be greater than or equal to 1.")?))
            }
            "bin" => {
                let bins = group.get("bins").and_then(Value::as_array).filter(|bins| bins.len() <= PARTS_MAX);
                let bins: Option<Vec<f64>> = bins
                    .ok_or("bins must be an array.")?
                    .iter()
                    .map(|bin| bin.as_f64().or_else(|| bin.as_str()?.parse().ok()))
                    .collect();
                Ok(Self::Bin(bins.filter(|bins| !bins.is_empty()).ok_or("bins must be numbers.")?))
            }
            other => Err(format!("{other} invalid group_by name")),
        }
    }

    /// Whether the series alone decides the group.
    pub(super) fn is_of_series(&self) -> bool {
        matches!(self, Self::Tag(_))
    }

    /// The cost of the grouping for each point, relative to the cost of an aggregator.
    pub(super) fn cost(&self) -> u64 {
        match self {
            Self::Bin(bins) => 1 + bins.len() as u64,
            _ => 1,
        }
    }

    /// The group of a point.
    pub(super) fn key(&self, ms: i64, value: f64, start_ms: i64) -> Key {
        Key::Number(match self {
            Self::Tag(_) => 0,
            Self::Time(size, count) => elapsed(ms, start_ms, *size).rem_euclid(*count),
            // KairosDB cuts the value towards zero first.
            Self::Value(size) => (value as i64) / size,
            Self::Bin(bins) => bin(bins, value),
        })
    }

    /// The grouping and the group in the answer.
    pub(super) fn describe(&self, key: &Key) -> Value {
        let number = match key {
            Key::Number(number) => *number,
            Key::Tags(_) => 0,
        };
        match self {
            Self::Tag(tags) => {
                let values: &[String] = if let Key::Tags(values) = key { values } else { &[] };
                let group: Map<String, Value> =
                    tags.iter().cloned().zip(values.iter().cloned().map(Value::String)).collect();
                json!({"name": "tag", "tags": tags, "group": group})
            }
            Self::Time(size, count) => json!({
                "name": "time",
                "range_size": {"value": size.value, "unit": format!("{:?}", size.unit).to_uppercase()},
                "group_count": count,
                "group": {"group_number": number},
            }),
            Self::Value(size) => {
                json!({"name": "value", "range_size": size, "group": {"group_number": number}})
            }
            Self::Bin(bins) => json!({"name": "bin", "bins": bins, "group": {"bin_number": number}}),
        }
    }
}

/// The number of the bin that holds a value: 0 below the first number, 1 between the first two numbers, and so on.
/// Above the last number it is the count of the numbers.
fn bin(bins: &[f64], value: f64) -> i64 {
    if bins.first().is_none_or(|first| value < *first) {
        return 0;
    }
    let between = bins.windows(2).position(|pair| value >= pair[0] && value < pair[1]);
    between.map_or(bins.len(), |at| at + 1) as i64
}

/// How many durations have passed. Months are counted by the calendar, and as in KairosDB always one by one, even if
/// `range_size` is several months. A year is 52 weeks.
fn elapsed(ms: i64, start_ms: i64, size: Duration) -> i64 {
    if size.unit == Unit::Months {
        let month = |ms: i64| {
            let day = jiff::Timestamp::from_millisecond(ms).ok()?.to_zoned(jiff::tz::TimeZone::UTC);
            Some(i64::from(day.year()) * 12 + i64::from(day.month()))
        };
        return match (month(ms), month(start_ms)) {
            (Some(ms), Some(start)) => ms - start,
            _ => 0,
        };
    }
    let unit = if size.unit == Unit::Years { 52 * Unit::Weeks.millis() } else { size.unit.millis() };
    (ms - start_ms) / size.value.saturating_mul(unit).max(1)
}

/// Refuses a property that a grouping does not have, as KairosDB does.
fn only(name: &str, group: &Map<String, Value>) -> Result<(), String> {
    let known: &[&str] = match name {
        "tag" => &["tags"],
        "time" => &["range_size", "group_count"],
        "value" => &["range_size"],
        "bin" => &["bins"],
        _ => return Ok(()),
    };
    match group.keys().find(|key| *key != "name" && !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(format!(
            "Property '{key}' was specified for object '{name}' but no matching setter was found"
        )),
    }
}

fn texts(group: &Map<String, Value>) -> Result<Vec<String>, String> {
    let tags =
        group.get("tags").and_then(Value::as_array).filter(|tags| !tags.is_empty() && tags.len() <= 1000);
    let texts: Option<Vec<String>> =
        tags.ok_or("tags may not be empty")?.iter().map(|tag| tag.as_str().map(str::to_owned)).collect();
    texts.ok_or_else(|| "tags must be texts.".to_owned())
}
