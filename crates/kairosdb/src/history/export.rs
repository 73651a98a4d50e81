//! A line of KairosDB's `export`: `{"name":…,"tags":{…},"datapoints":[[milliseconds,value,"type"]…]}`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Entry;
use crate::json::{Key, Scalar};
use crate::kairos::pair::{Pair, Pairs};
use crate::number::Number;
use crate::point::Reason;
use crate::tags::Tags;

/// Reads a line.
///
/// # Errors
/// The error says why it cannot be read.
pub(super) fn read(line: &str, entry: &mut Entry) -> Result<(), String> {
    let mut reader = serde_json::Deserializer::from_str(line);
    let (name, mut tags) = reader
        .deserialize_map(Row(entry))
        .and_then(|named| reader.end().map(|()| named))
        .map_err(|error| error.to_string())?;
    if name.is_empty() {
        return Err("it has no name".to_owned());
    }
    if tags.too_long {
        return Err("its tags are longer than the name of a series can be".to_owned());
    }
    match tags.faults.into_iter().next() {
        Some(fault) => Err(fault),
        None => entry.set_name(&name, &mut tags.tags),
    }
}

struct Row<'a>(&'a mut Entry);

impl<'de> Visitor<'de> for Row<'_> {
    type Value = (Cow<'de, str>, Tags<'de>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with name, tags and datapoints")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut name, mut tags) = (Cow::default(), Tags::default());
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "name" => name = map.next_value::<Scalar<'de>>()?.into_text().unwrap_or_default(),
                "tags" => tags = map.next_value()?,
                "datapoints" => map.next_value_seed(Pairs(|pair: Pair<'de>| add(self.0, &pair)))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok((name, tags))
    }
}

fn add(entry: &mut Entry, pair: &Pair<'_>) {
    if pair.len < 2 {
        return entry.refuse(Reason::Item);
    }
    let time = match pair.time.number() {
        Some(Number::Whole(whole)) => i64::try_from(whole).ok(),
        _ => None,
    };
    let is_double = match pair.kind.as_deref() {
        Some("long") => Some(false),
        Some("double") => Some(true),
        Some(other) => return entry.leave_out(other),
        None => None,
    };
    match (time, pair.value.number()) {
        (None, _) => entry.refuse(Reason::Timestamp),
        (_, None) => entry.refuse(Reason::Value),
        (Some(time), Some(number)) => {
            entry.add(time, number, is_double.unwrap_or(matches!(number, Number::Real(_))));
        }
    }
}
