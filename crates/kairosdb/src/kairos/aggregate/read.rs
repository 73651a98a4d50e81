//! Reads aggregators from JSON. A property that an aggregator does not have is an error, as in KairosDB.

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::{Aggregator, Compare, Fold, Sampling, Stamp, Threshold};
use crate::json::is_true;
use crate::kairos::duration::{duration, no_unit, number};
use crate::kairos::time::{Duration, Unit, zone};

impl Aggregator {
    /// Reads an aggregator.
    ///
    /// # Errors
    /// A message with the problem of the aggregator.
    pub(crate) fn of(value: &Value) -> Result<Self, String> {
        let Value::Object(all) = value else { return Err("must be an object.".to_owned()) };
        let name = all.get("name").and_then(Value::as_str).ok_or("name may not be empty.")?;
        let properties = Properties { name, all };
        if let Some((fold, known)) = properties.fold()? {
            properties.only(&[RANGE, known].concat())?;
            return Ok(Self::Range(properties.sampling()?, fold));
        }
        properties.single()
    }
}

/// The properties of aggregators over ranges.
const RANGE: &[&str] =
    &["sampling", "align_sampling", "align_start_time", "align_end_time", "time_zone", "trim"];

struct Properties<'a> {
    name: &'a str,
    all: &'a Map<String, Value>,
}

impl Properties<'_> {
    /// The fold of an aggregator over ranges, and its own properties.
    fn fold(&self) -> Result<Option<(Fold, &'static [&'static str])>, String> {
        let none: &[&str] = &[];
        Ok(Some(match self.name {
            "sum" => (Fold::Sum, none),
            "min" => (Fold::Min, none),
            "max" => (Fold::Max, none),
            "avg" => (Fold::Avg, none),
            "count" => (Fold::Count, none),
            "first" => (Fold::First, none),
            "last" => (Fold::Last, none),
            "least_squares" => (Fold::LeastSquares, none),
            "gaps" => (Fold::Gaps, none),
            "dev" => (Fold::Dev(self.around()?), &["return_type", "dev_count"]),
            "percentile" => {
                let quantile = self.real("percentile")?.unwrap_or(-1.0);
                if !(quantile > 0.0 && quantile <= 1.0) {
                    return Err("percentile must be greater than 0 and at most 1".to_owned());
                }
                (Fold::Percentile(quantile), &["percentile"])
            }
            _ => return Ok(None),
        }))
    }

    /// The factor of the deviation that is added to the mean, if there is one.
    fn around(&self) -> Result<Option<f64>, String> {
        // KairosDB takes the whole part.
        let count = self.real("dev_count")?.unwrap_or(1.0).trunc();
        match self
            .all
            .get("return_type")
            .and_then(Value::as_str)
            .unwrap_or("value")
            .to_ascii_lowercase()
            .as_str()
        {
            "value" => Ok(None),
            "pos_sd" => Ok(Some(count)),
            "neg_sd" => Ok(Some(-count)),
            other => Err(format!("return_type {other:?} is not value, pos_sd or neg_sd.")),
        }
    }

    fn single(&self) -> Result<Aggregator, String> {
        let (aggregator, known): (_, &[&str]) = match self.name {
            "rate" => (Aggregator::Rate(self.unit()?, self.zone()?), &["unit", "sampling", "time_zone"]),
            "sampler" => (Aggregator::Sampler(self.unit()?, self.zone()?), &["unit", "time_zone"]),
            "diff" => (Aggregator::Diff, &[]),
            "scale" => (Aggregator::Scale(self.required("factor")?), &["factor"]),
            "div" => {
                let divisor = self.required("divisor")?;
                if divisor == 0.0 {
                    return Err("divisor may not be zero".to_owned());
                }
                (Aggregator::Div(divisor), &["divisor"])
            }
            "sma" => {
                let size = self.all.get("size").and_then(number).and_then(|size| usize::try_from(size).ok());
                let size = size.filter(|size| *size > 0).ok_or("size must be greater than or equal to 1.")?;
                (Aggregator::Sma(size), &["size"])
            }
            "trim" => {
                // KairosDB's page always sends the property; without it nothing is cut off.
                let trim = self.word("trim", "none");
                let (first, last) = match trim.as_str() {
                    "none" if self.all.get("trim").is_none_or(Value::is_null) => (false, false),
                    "first" => (true, false),
                    "last" => (false, true),
                    "both" => (true, true),
                    other => {
                        return Err(format!(
                            "{other} is not a valid trim type, must be 'first', 'last' or 'both'."
                        ));
                    }
                };
                (Aggregator::Trim(first, last), &["trim"])
            }
            "filter" => (
                Aggregator::Filter(self.compare()?, self.real("threshold")?.unwrap_or(0.0)),
                &["filter_op", "threshold"],
            ),
            "score" => (self.score()?, &["thresholds", "order"]),
            "save_as" => return Err("save_as is not supported: a query changes nothing.".to_owned()),
            other => return Err(format!("{other} invalid aggregators name")),
        };
        self.only(known)?;
        Ok(aggregator)
    }

    fn score(&self) -> Result<Aggregator, String> {
        let thresholds = match self.all.get("thresholds") {
            Some(Value::Array(thresholds)) if thresholds.len() <= 1000 => thresholds,
            _ => return Err("thresholds must be an array.".to_owned()),
        };
        let mut thresholds: Vec<Threshold> = thresholds.iter().map(threshold).collect::<Result<_, _>>()?;
        thresholds.sort_by(|a, b| a.value.total_cmp(&b.value));
        let order = self.all.get("order").and_then(Value::as_str).unwrap_or("ascending").to_ascii_lowercase();
        match order.as_str() {
            "ascending" => Ok(Aggregator::Score(thresholds, false)),
            "descending" => Ok(Aggregator::Score(thresholds, true)),
            other => Err(format!("order {other:?} is neither ascending nor descending.")),
        }
    }

    fn compare(&self) -> Result<Compare, String> {
        let name = self.word("filter_op", "equal");
        Ok(match name.as_str() {
            "lt" => Compare::Lt,
            "lte" => Compare::Lte,
            "gt" => Compare::Gt,
            "gte" => Compare::Gte,
            "equal" => Compare::Equal,
            "ne" => Compare::Ne,
            other => return Err(format!("filter_op {other:?} is not lt, lte, gt, gte, equal or ne.")),
        })
    }

    fn sampling(&self) -> Result<Sampling, String> {
        let duration = match self.all.get("sampling") {
            None | Some(Value::Null) => Duration { value: 1, unit: Unit::Milliseconds },
            Some(value) => duration(value).map_err(|text| format!("sampling.{text}"))?,
        };
        let stamp = if self.switch("align_start_time", false)? {
            Stamp::Start
        } else if self.switch("align_end_time", false)? {
            Stamp::End
        } else {
            Stamp::Point
        };
        let (align, trim) = (self.switch("align_sampling", true)?, self.switch("trim", false)?);
        Ok(Sampling { duration, align, stamp, zone: self.zone()?, trim })
    }

    fn zone(&self) -> Result<Option<TimeZone>, String> {
        match self.all.get("time_zone") {
            None | Some(Value::Null) => Ok(None),
            Some(name) => {
                let name = name.as_str().unwrap_or("?");
                zone(name).map(Some).ok_or_else(|| format!("{name} is not a valid time zone"))
            }
        }
    }

    /// The unit of a rate: `unit`, or a whole `sampling`.
    fn unit(&self) -> Result<Duration, String> {
        if let Some(value) = self.all.get("sampling").filter(|value| !value.is_null()) {
            return duration(value).map_err(|text| format!("sampling.{text}"));
        }
        match self.all.get("unit") {
            None | Some(Value::Null) => Ok(Duration { value: 1, unit: Unit::Milliseconds }),
            Some(unit) => {
                let name = unit.as_str().unwrap_or_default();
                let unit = Unit::named(name).ok_or_else(|| no_unit(name))?;
                Ok(Duration { value: 1, unit })
            }
        }
    }

    /// A word in lower case. A value that is not a string becomes its JSON text, which is then refused as an unknown word.
    fn word(&self, key: &str, default: &str) -> String {
        match self.all.get(key) {
            None | Some(Value::Null) => default.to_owned(),
            Some(Value::String(word)) => word.to_ascii_lowercase(),
            Some(other) => other.to_string(),
        }
    }

    fn switch(&self, key: &str, default: bool) -> Result<bool, String> {
        match self.all.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => is_true(value).ok_or_else(|| format!("{key} must be true or false.")),
        }
    }

    fn required(&self, key: &str) -> Result<f64, String> {
        self.real(key)?.ok_or_else(|| format!("{key} must be a number."))
    }

    fn real(&self, key: &str) -> Result<Option<f64>, String> {
        match self.all.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => real(value).map(Some).ok_or_else(|| format!("{key} must be a number.")),
        }
    }

    fn only(&self, known: &[&str]) -> Result<(), String> {
        let unknown = self.all.keys().find(|key| *key != "name" && !known.contains(&key.as_str()));
        match unknown {
            None => Ok(()),
            Some(key) => Err(format!(
                "Property '{key}' was specified for object '{}' but no matching setter was found",
                self.name
            )),
        }
    }
}

/// A threshold of `score`: values equal to it have passed it only if its boundary is `inferior`.
fn threshold(threshold: &Value) -> Result<Threshold, String> {
    let Value::Object(all) = threshold else { return Err("thresholds must be objects.".to_owned()) };
    let value = match all.get("value") {
        None | Some(Value::Null) => 0.0,
        Some(value) => real(value).ok_or("thresholds must have a number as value.")?,
    };
    match all.get("boundary").and_then(Value::as_str).unwrap_or("superior") {
        "superior" => Ok(Threshold { value, is_inferior: false }),
        "inferior" => Ok(Threshold { value, is_inferior: true }),
        other => Err(format!("boundary {other:?} is neither superior nor inferior.")),
    }
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok().filter(|real: &f64| real.is_finite()),
        _ => None,
    }
}
