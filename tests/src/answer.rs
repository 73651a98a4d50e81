//! Parses the answers of `/render` in the formats that the tests use.

use std::collections::BTreeMap;

use serde_json::Value;

/// A series of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Seconds between two slots. 0 if the format does not contain the step and there are fewer than two slots.
    pub step: i64,
    /// Time in seconds since the epoch and value of each slot. `None` is an unknown value.
    pub slots: Vec<(i64, Option<f64>)>,
}

impl Series {
    /// The slots that have a value.
    pub fn known(&self) -> BTreeMap<i64, f64> {
        self.slots.iter().filter_map(|(t, v)| Some((*t, (*v)?))).collect()
    }
}

/// Parses `format=json`.
///
/// # Errors
/// A message with the part of the text that is not as expected.
pub fn json(text: &str) -> Result<Vec<Series>, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("{e}: {}", short(text)))?;
    let list = value.as_array().ok_or_else(|| format!("not a list: {}", short(text)))?;
    list.iter().map(|s| series(s).ok_or_else(|| format!("not a series: {s}"))).collect()
}

fn series(value: &Value) -> Option<Series> {
    let slot = |point: &Value| Some((point.get(1)?.as_i64()?, point.get(0)?.as_f64()));
    let slots: Vec<_> = value.get("datapoints")?.as_array()?.iter().map(slot).collect::<Option<_>>()?;
    let step = slots.get(1).map_or(0, |second: &(i64, Option<f64>)| second.0 - slots[0].0);
    Some(Series { name: value.get("target")?.as_str()?.to_owned(), step, slots })
}

/// Parses `format=csv` into rows of name, time as text, and value.
///
/// # Errors
/// A message with the first line that is not a row.
pub fn csv(text: &str) -> Result<Vec<(String, String, Option<f64>)>, String> {
    let row = |line: &str| {
        let mut parts = line.rsplitn(3, ',');
        let value = match parts.next()? {
            "" => None,
            number => Some(number.parse().ok()?),
        };
        let time = parts.next()?.to_owned();
        Some((parts.next()?.to_owned(), time, value))
    };
    text.split_terminator("\r\n").map(|l| row(l).ok_or_else(|| format!("not a row: {}", short(l)))).collect()
}

/// Parses `format=raw`, whose numbers are exact.
///
/// # Errors
/// A message with the first line that is not a series.
pub fn raw(text: &str) -> Result<Vec<Series>, String> {
    text.lines().map(|l| raw_line(l).ok_or_else(|| format!("not a raw line: {}", short(l)))).collect()
}

fn raw_line(line: &str) -> Option<Series> {
    let (head, values) = line.split_once('|')?;
    let mut parts = head.rsplitn(4, ',');
    let step: i64 = parts.next()?.parse().ok()?;
    let _end: i64 = parts.next()?.parse().ok()?;
    let start: i64 = parts.next()?.parse().ok()?;
    let name = parts.next()?.to_owned();
    let value = |text: &str| match text {
        "None" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let values: Vec<_> = values.split(',').map(value).collect::<Option<_>>()?;
    let slots = values.into_iter().enumerate().map(|(i, v)| (start + i as i64 * step, v)).collect();
    Some(Series { name, step, slots })
}

/// Whether two values are equal up to the rounding that different orders of addition cause.
pub fn alike(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => false,
    }
}

/// The first 300 characters of a text, for messages.
pub fn short(text: &str) -> String {
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_read_alike() {
        let json = json(r#"[{"target":"a,b","tags":{},"datapoints":[[null,60],[1.5,120]]}]"#).unwrap();
        assert_eq!(json, raw("a,b,60,180,60|None,1.5\n").unwrap());
        assert_eq!(json[0].known(), BTreeMap::from([(120, 1.5)]));
    }
}
