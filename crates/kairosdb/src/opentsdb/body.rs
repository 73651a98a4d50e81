//! The body of a query, before its members are interpreted.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// A body.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// The members of the body, without the sub-queries.
    pub(super) members: Map<String, Value>,
    /// The sub-queries.
    pub(super) subs: Vec<SubBody>,
}

/// The members of a sub-query. It has `tags` or `filters`: as in OpenTSDB, each of them replaces the other, and the one
/// that comes last counts.
#[derive(Debug, Default)]
pub(super) struct SubBody(pub(super) Map<String, Value>);

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfBody;
        impl<'de> Visitor<'de> for OfBody {
            type Value = Body;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a query")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
                let mut body = Body::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "queries" {
                        body.subs = map.next_value::<Option<Vec<SubBody>>>()?.unwrap_or_default();
                    } else {
                        body.members.insert(key, map.next_value()?);
                    }
                }
                Ok(body)
            }
        }
        deserializer.deserialize_map(OfBody)
    }
}

impl<'de> Deserialize<'de> for SubBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfSub;
        impl<'de> Visitor<'de> for OfSub {
            type Value = SubBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a metric")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SubBody, A::Error> {
                let mut members = Map::new();
                while let Some(key) = map.next_key::<String>()? {
                    let value: Value = map.next_value()?;
                    match key.as_str() {
                        "tags" => drop(members.remove("filters")),
                        "filters" => drop(members.remove("tags")),
                        _ => {}
                    }
                    members.insert(key, value);
                }
                Ok(SubBody(members))
            }
        }
        deserializer.deserialize_map(OfSub)
    }
}
