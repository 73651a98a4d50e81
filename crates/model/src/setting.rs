//! Functions for serde's `deserialize_with`, for settings that are written as text.
//!
//! [`Period`] and [`ByteSize`] implement `Deserialize` themselves. These functions are for fields of other
//! types.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

use crate::units::{ByteSize, Period};

/// Parses a value from its text.
///
/// # Errors
///
/// Returns the deserializer's error if the setting is not a text, or if the text cannot be parsed.
pub fn from_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// Parses a length of time with its unit, such as `"30s"`.
///
/// # Errors
///
/// Returns the deserializer's error if the setting is not such a text.
pub fn period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Period::deserialize(deserializer).map(|period| period.0)
}

/// Parses a number of bytes with its unit, such as `"64MiB"`.
///
/// # Errors
///
/// Returns the deserializer's error if the setting is not such a text.
pub fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    ByteSize::deserialize(deserializer).map(|size| size.0)
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
