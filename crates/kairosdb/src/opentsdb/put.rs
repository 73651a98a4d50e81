//! The body of `POST /api/put`.

use serde::de::{IgnoredAny, MapAccess};

use crate::array::{self, Object};
use crate::json::{Key, Scalar, quoted};
use crate::number::Number;
use crate::point::{Points, Reason};
use crate::tags::{Tags, shortened};

/// The number from which times mean milliseconds: numbers that do not fit into 32 bits.
const MILLISECONDS_FROM: i64 = 1 << 32;

/// The largest time in milliseconds that OpenTSDB accepts: 13 digits.
const MILLISECONDS_MAX: i64 = 9_999_999_999_999;

/// Reads a body: one point or an array of them. Bad points are refused one by one, with their JSON, and the
/// others are accepted.
pub fn put(body: &[u8]) -> Points {
    array::with_any_numbers(body, read)
}

fn read(body: &[u8]) -> Points {
    let mut points = Points::default();
    let objects = array::read::<Item>(body, &mut points);
    points.count_large(body);
    if objects == 0 && points.refused_len() == 0 {
        points.refuse(Reason::Body, 1, "No datapoints found in content");
    }
    points
}

/// The milliseconds of a time that OpenTSDB accepts: seconds, milliseconds with 13 digits, or `s.mmm`.
pub(crate) fn time_ms(time: Number) -> Option<i64> {
    match time {
        Number::Whole(whole) => {
            let whole = i64::try_from(whole).ok().filter(|whole| (1..=MILLISECONDS_MAX).contains(whole))?;
            if whole < MILLISECONDS_FROM {
                return Some(whole * 1000);
            }
            (whole > MILLISECONDS_MAX / 10).then_some(whole)
        }
        Number::Real(real) => {
            let ms = (real * 1000.0).round();
            (real > 0.0 && ms <= MILLISECONDS_MAX as f64).then_some(ms as i64)
        }
    }
}

/// One point of a body.
#[derive(Default)]
struct Item<'de> {
    metric: Scalar<'de>,
    timestamp: Scalar<'de>,
    value: Scalar<'de>,
    tags: Tags<'de>,
}

impl<'de> Object<'de> for Item<'de> {
    fn read<A: MapAccess<'de>>(points: &mut Points, _: usize, mut map: A) -> Result<(), A::Error> {
        let mut item = Item::default();
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "metric" => item.metric = map.next_value()?,
                "timestamp" => item.timestamp = map.next_value()?,
                "value" => item.value = map.next_value()?,
                "tags" => item.tags = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let mark = points.mark();
        if let Err((reason, text)) = item.add(points) {
            points.take_back(mark);
            points.refuse(reason, 1, text);
            points.attach(mark, || item.to_json());
        }
        Ok(())
    }
}

impl Item<'_> {
    fn add(&mut self, points: &mut Points) -> Result<(), (Reason, String)> {
        let fault = |reason, text: &str| Err((reason, text.to_owned()));
        let metric = match std::mem::take(&mut self.metric).into_text() {
            Some(metric) if !metric.is_empty() => metric,
            Some(metric) => {
                self.metric = Scalar::Text(metric);
                return fault(Reason::NameEmpty, "Metric name was empty");
            }
            None => return fault(Reason::NameEmpty, "Metric name was empty"),
        };
        let outcome = self.add_to(&metric, points);
        self.metric = Scalar::Text(metric);
        match outcome {
            Ok(()) => Ok(()),
            Err((reason, text)) => fault(reason, &text),
        }
    }

    fn add_to(&mut self, metric: &str, points: &mut Points) -> Result<(), (Reason, String)> {
        let time = match self.timestamp.number().map(time_ms) {
            Some(Some(time)) => time,
            _ => return Err((Reason::Timestamp, "Invalid timestamp".to_owned())),
        };
        let value = match &self.value {
            Scalar::Null => return Err((Reason::Nan, "Empty value".to_owned())),
            value => value
                .number()
                .ok_or_else(|| (Reason::Value, "Unable to parse value to a number".to_owned()))?,
        };
        if let Some(text) = self.tags.faults.first() {
            return Err((Reason::Tags, text.clone()));
        }
        if self.tags.too_long {
            return Err((Reason::NameTooLong, TOO_LONG.to_owned()));
        }
        if self.tags.tags.is_empty() {
            return Err((Reason::Tags, "Missing tags".to_owned()));
        }
        points.add(time, value).map_err(|reason| (reason, "Unable to parse value to a number".to_owned()))?;
        let mut tags = self.tags.tags.clone();
        points.close_series(metric, &mut tags).map_err(|reason| (reason, TOO_LONG.to_owned()))
    }

    /// The point in answers. As in OpenTSDB the value is a text, and what is missing is left out.
    fn to_json(&self) -> String {
        let shown = |scalar: &Scalar<'_>| match scalar {
            Scalar::Text(text) => quoted(shortened(text)),
            other => other.to_json(),
        };
        let value = match &self.value {
            value @ (Scalar::Number(_) | Scalar::Bool(_)) => quoted(&value.to_json()),
            value => shown(value),
        };
        let members = [
            ("metric", &self.metric, shown(&self.metric)),
            ("timestamp", &self.timestamp, shown(&self.timestamp)),
            ("value", &self.value, value),
        ];
        let members = members.into_iter().filter(|(_, scalar, _)| **scalar != Scalar::Null);
        let members: String = members.map(|(name, _, text)| format!("\"{name}\":{text},")).collect();
        let tags = self.tags.tags.iter().take(TAGS_SHOWN);
        let tags: Vec<_> = tags
            .map(|(tag, value)| format!("{}:{}", quoted(shortened(tag)), quoted(shortened(value))))
            .collect();
        format!("{{{members}\"tags\":{{{}}}}}", tags.join(","))
    }
}

/// Maximum number of tags of a refused point that are returned.
const TAGS_SHOWN: usize = 20;

const TOO_LONG: &str = "metric and tags are longer than the name of a series can be";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> (Vec<(String, u32, f64)>, Vec<String>) {
        let points = put(body.as_bytes());
        let taken = points.points().iter().map(|p| (points.name(p.series).to_owned(), p.timestamp, p.value));
        (taken.collect(), points.refused().iter().map(|refused| refused.text.clone()).collect())
    }

    #[test]
    fn points_as_senders_write_them() {
        let m = |name: &str, time, value| (name.to_owned(), time, value);
        for (body, expected) in [
            (
                r#"{"metric":"m","timestamp":1500000000,"value":1,"tags":{"h":"a"}}"#,
                vec![m("m;h=a", 1_500_000_000, 1.0)],
            ),
            (
                r#"[{"metric":"m","timestamp":1500000000123,"value":"2.5","tags":{"h":"a"},"x":1},{"metric":"n","timestamp":"1500000000","value":1e3,"tags":{"h":"a"}}]"#,
                vec![m("m;h=a", 1_500_000_000, 2.5), m("n;h=a", 1_500_000_000, 1000.0)],
            ),
        ] {
            assert_eq!(read(body), (expected, vec![]), "{body}");
        }
        for body in ["[]", "", "null", r#"[{"metric":"m","timestamp":1}"#] {
            let (points, refused) = read(body);
            assert!(points.is_empty() && !refused.is_empty(), "{body}");
        }
    }

    #[test]
    fn bad_points_come_back_with_their_error() {
        let points = put(br#"[{"metric":"m","timestamp":1500000000,"value":"x","tags":{"h":"a"}},{"metric":"m","timestamp":1,"value":1,"tags":{"h":"a"}},{"metric":"","value":1.5,"tags":{"h":"a"}}]"#);
        assert_eq!((points.points().len(), points.refused_len()), (1, 2));
        let shown = points.refused()[1].item.as_deref();
        assert_eq!(
            shown,
            Some(r#"{"metric":"","value":"1.5","tags":{"h":"a"}}"#),
            "a value is shown as a text"
        );
        let refused = &points.refused()[0];
        assert_eq!(refused.text, "Unable to parse value to a number");
        assert_eq!(
            refused.item.as_deref(),
            Some(r#"{"metric":"m","timestamp":1500000000,"value":"x","tags":{"h":"a"}}"#)
        );
    }

    #[test]
    fn what_is_no_point_costs_no_other_point() {
        let point =
            |value: &str| format!(r#"{{"metric":"m","timestamp":1,"value":{value},"tags":{{"h":"a"}}}}"#);
        let body = format!("[{},null,{},{}]", point("1"), point("NaN"), point("2"));
        let points = put(body.as_bytes());
        assert_eq!((points.points().len(), points.refused_len()), (2, 2));
        assert_eq!(points.refused()[0].item, None);
        assert_eq!(points.refused()[1].text, "Unable to parse value to a number");
    }

    #[test]
    fn times_in_seconds_and_milliseconds() {
        for (time, ms) in [
            (Number::Whole(1_500_000_000), Some(1_500_000_000_000)),
            (Number::Whole((1 << 32) - 1), Some(4_294_967_295_000)),
            (Number::Whole(1 << 32), None),
            (Number::Whole(1_500_000_000_123), Some(1_500_000_000_123)),
            (Number::Whole(15_000_000_000_123), None),
            (Number::Real(1_500_000_000.123), Some(1_500_000_000_123)),
            (Number::Whole(0), None),
            (Number::Whole(-5), None),
        ] {
            assert_eq!(time_ms(time), ms, "{time:?}");
        }
    }

    #[test]
    fn rounded_numbers_of_any_length_are_counted() {
        let point =
            |value: &str| format!(r#"{{"metric":"m","timestamp":1,"value":{value},"tags":{{"h":"a"}}}}"#);
        for (value, rounded) in [
            ("18446744073709551617", 1),
            ("\"18446744073709551617\"", 1),
            ("1.8446744073709552e19", 0),
            ("18446744073709551616", 0),
        ] {
            assert_eq!(put(point(value).as_bytes()).rounded, rounded, "{value}");
        }
    }
}
