//! The array `datapoints`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};

use crate::json::Scalar;

/// Reads the array and gives each point to the function inside.
pub(crate) struct Pairs<F>(pub(crate) F);

impl<'de, F: FnMut(Pair<'de>)> DeserializeSeed<'de> for Pairs<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Pair<'de>)> Visitor<'de> for Pairs<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of datapoints")
    }

    /// Accepts null, which some senders write for an empty list.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(pair) = seq.next_element()? {
            (self.0)(pair);
        }
        Ok(())
    }
}

/// A point of `datapoints`: `[time, value]` or `[time, value, type]`.
pub(crate) struct Pair<'de> {
    pub(crate) time: Scalar<'de>,
    pub(crate) value: Scalar<'de>,
    /// The type, if it is given.
    pub(crate) kind: Option<Cow<'de, str>>,
    /// How many of the two, time and value, are present.
    pub(crate) len: usize,
}

impl<'de> Deserialize<'de> for Pair<'de> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Pair<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of a timestamp and a value")
            }

            /// A null point is refused like an empty array, so that the points after it still count.
            fn visit_unit<E>(self) -> Result<Pair<'de>, E> {
                Ok(Pair { time: Scalar::Null, value: Scalar::Null, kind: None, len: 0 })
            }

            #[inline]
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pair<'de>, A::Error> {
                let mut pair = Pair { time: Scalar::Null, value: Scalar::Null, kind: None, len: 0 };
                let Some(time) = seq.next_element()? else { return Ok(pair) };
                (pair.time, pair.len) = (time, 1);
                let Some(value) = seq.next_element()? else { return Ok(pair) };
                (pair.value, pair.len) = (value, 2);
                if let Some(kind) = seq.next_element::<Scalar<'de>>()? {
                    pair.kind = kind.into_text();
                    while seq.next_element::<IgnoredAny>()?.is_some() {}
                }
                Ok(pair)
            }
        }
        deserializer.deserialize_any(Elements)
    }
}
