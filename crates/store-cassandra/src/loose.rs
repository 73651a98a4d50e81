//! Reads settings that have a type in a file, and are text in the environment.

use serde::{Deserialize, Deserializer, de};

/// A setting of any type. All settings of the environment are texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Loose {
    Number(i64),
    Switch(bool),
    Texts(Vec<String>),
    Text(String),
    /// Anything else, so that it is refused with our message.
    Other(de::IgnoredAny),
}

/// Reads a number from `min` to `max`, also from a text. `name` names the setting in the error.
pub(crate) fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    name: &str,
    min: u32,
    max: u32,
) -> Result<u32, D::Error> {
    let number = match Loose::deserialize(deserializer)? {
        Loose::Number(number) => u32::try_from(number).ok(),
        Loose::Text(text) => text.parse().ok(),
        _ => None,
    };
    number
        .filter(|n| (min..=max).contains(n))
        .ok_or_else(|| de::Error::custom(format!("{name} is a number from {min} to {max}")))
}

/// `true` or `false`.
pub(crate) fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = match Loose::deserialize(deserializer)? {
        Loose::Switch(value) => Some(value),
        Loose::Text(text) => text.parse().ok(),
        _ => None,
    };
    value.ok_or_else(|| de::Error::custom("write true or false"))
}

/// A list of texts, or a text with commas between them.
pub(crate) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    match Loose::deserialize(deserializer)? {
        Loose::Texts(texts) => Ok(texts),
        Loose::Text(text) => {
            Ok(text.split(',').map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect())
        }
        _ => Err(de::Error::custom("write a list of texts")),
    }
}
