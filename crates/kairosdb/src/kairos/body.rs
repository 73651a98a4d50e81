//! The body of `POST /api/v1/datapoints`.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess};

use super::pair::{Pair, Pairs};
use crate::array::{self, Object};
use crate::json::{Key, Scalar, without_mark};
use crate::number::Number;
use crate::point::{Mark, Points, Reason};
use crate::tags::{Tags, shortened};

/// Reads a body: one metric or an array of them, each with points. Bad points are refused one by one, and the
/// others are accepted, as in KairosDB.
pub fn datapoints(body: &[u8]) -> Points {
    array::with_any_numbers(without_mark(body), read)
}

fn read(body: &[u8]) -> Points {
    let mut points = Points::default();
    array::read::<Metric>(body, &mut points);
    points.count_large(body);
    points
}

/// One metric of a body.
#[derive(Default)]
struct Metric<'de> {
    name: Scalar<'de>,
    tags: Tags<'de>,
    time: Scalar<'de>,
    timestamp: Scalar<'de>,
    value: Scalar<'de>,
    kind: Option<Cow<'de, str>>,
    has_ttl: bool,
}

impl<'de> Object<'de> for Metric<'de> {
    fn read<A: MapAccess<'de>>(points: &mut Points, at: usize, mut map: A) -> Result<(), A::Error> {
        let mark = points.mark();
        let mut metric = Metric::default();
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "name" => metric.name = map.next_value()?,
                "tags" => metric.tags = map.next_value()?,
                "datapoints" => map.next_value_seed(datapoints_of(points))?,
                "time" => metric.time = map.next_value()?,
                "timestamp" => metric.timestamp = map.next_value()?,
                "value" => metric.value = map.next_value()?,
                "type" => metric.kind = map.next_value::<Scalar<'de>>()?.into_text(),
                "ttl" => metric.has_ttl = is_positive(&map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        metric.finish(points, mark, at);
        Ok(())
    }
}

impl Metric<'_> {
    /// Checks what concerns the whole metric, and names its series.
    fn finish(mut self, points: &mut Points, mark: Mark, at: usize) {
        // `time` counts if both are given, as in KairosDB.
        let time = if self.time == Scalar::Null { &self.timestamp } else { &self.time };
        if *time != Scalar::Null || self.value != Scalar::Null {
            let mut single = std::mem::take(&mut self.value);
            let added = match (time, &single) {
                (Scalar::Null, _) => Err((Reason::Item, "timestamp is required with value.")),
                (_, Scalar::Null) => Err((Reason::Item, "value is required with timestamp.")),
                (time, _) => add(points, time, &mut single),
            };
            if let Err((reason, text)) = added {
                points.refuse(reason, 1, text);
            }
        }
        let name = self.name.into_text().unwrap_or_default();
        let fault = if name.is_empty() {
            Some((Reason::NameEmpty, vec!["name may not be empty.".to_owned()]))
        } else if !self.tags.faults.is_empty() {
            Some((Reason::Tags, std::mem::take(&mut self.tags.faults)))
        } else if self.tags.too_long {
            Some((Reason::NameTooLong, vec![TOO_LONG.to_owned()]))
        } else if self.tags.tags.is_empty() {
            Some((Reason::Tags, vec!["tags count must be greater than or equal to 1.".to_owned()]))
        } else if let Some(text) = self.kind.as_deref().and_then(fault_of_type) {
            Some((Reason::Value, vec![text]))
        } else if points.since(mark) == 0 {
            None
        } else if points.close_series(&name, &mut self.tags.tags).is_err() {
            Some((Reason::NameTooLong, vec![TOO_LONG.to_owned()]))
        } else {
            points.with_ttl += if self.has_ttl { points.since(mark) as u64 } else { 0 };
            None
        };
        if let Some((reason, texts)) = fault {
            let taken = points.take_back(mark).max(1);
            for (at, text) in texts.into_iter().enumerate() {
                points.refuse(reason, if at == 0 { taken } else { 0 }, text);
            }
        }
        points.prefix(mark, || match &*name {
            "" => format!("metric[{at}]."),
            name => format!("metric[{at}](name={}).", shortened(name)),
        });
    }
}

const TOO_LONG: &str = "name and tags are longer than the name of a series can be.";

fn is_positive(ttl: &Scalar<'_>) -> bool {
    match ttl.number() {
        Some(Number::Whole(whole)) => whole > 0,
        Some(Number::Real(real)) => real > 0.0,
        None => false,
    }
}

/// The problem of a type. Text and types of plug-ins are not kept.
fn fault_of_type(kind: &str) -> Option<String> {
    match kind {
        "long" | "double" | "kairos_long" | "kairos_double" => None,
        "string" | "kairos_string" => Some("type 'string' is not kept here: only numbers are.".to_owned()),
        other => Some(format!("type '{}' is not known.", shortened(other))),
    }
}

/// Adds a point, or refuses it with a reason.
#[inline]
fn add(points: &mut Points, time: &Scalar<'_>, value: &mut Scalar<'_>) -> Result<(), (Reason, &'static str)> {
    let time = time_of(time).ok_or((Reason::Timestamp, "timestamp must be a number."))?;
    let value = match value {
        Scalar::Null => return Err((Reason::Nan, "value may not be empty.")),
        value => value.number().ok_or((Reason::Value, "value must be a number: text is not kept here."))?,
    };
    points.add(time, value).map_err(|reason| match reason {
        Reason::Timestamp => (reason, "timestamp must not be negative."),
        Reason::Future => (reason, "timestamp is after the year 2106."),
        reason => (reason, "value must be finite."),
    })
}

/// Milliseconds; a fraction is cut off.
fn time_of(time: &Scalar<'_>) -> Option<i64> {
    match time.number()? {
        Number::Whole(whole) => Some(whole.clamp(i64::MIN.into(), i64::MAX.into()) as i64),
        Number::Real(real) => Some(real as i64),
    }
}

/// Reads the array `datapoints`.
fn datapoints_of<'de>(points: &mut Points) -> Pairs<impl FnMut(Pair<'de>)> {
    let mut at = 0_usize;
    Pairs(move |mut pair: Pair<'de>| {
        let added = match (&pair.kind, pair.len) {
            (_, 0 | 1) => Err((Reason::Item, "needs a timestamp and a value.".into())),
            (Some(kind), _) if let Some(fault) = fault_of_type(kind) => Err((Reason::Value, fault.into())),
            _ => add(points, &pair.time, &mut pair.value).map_err(|(reason, text)| (reason, Cow::from(text))),
        };
        if let Err((reason, text)) = added {
            points.refuse(reason, 1, format!("datapoints[{at}].{text}"));
        }
        at += 1;
    })
}

#[cfg(test)]
mod tests;
