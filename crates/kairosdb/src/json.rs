//! JSON as senders write it: texts, which are borrowed if possible, and values of any kind.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::number::Number;

/// A JSON value without its members.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) enum Scalar<'de> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'de, str>),
    /// An array or an object.
    Nested,
}

impl<'de> Scalar<'de> {
    /// The value as the text of a tag's value. Numbers and booleans become text.
    pub(crate) fn into_text(self) -> Option<Cow<'de, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(Number::Whole(whole)) => Some(whole.to_string().into()),
            // Written with its fraction, as in queries: the tag values 1.0 and 1 differ.
            Self::Number(Number::Real(real)) => Some(serde_json::Value::from(real).to_string().into()),
            Self::Bool(is) => Some(is.to_string().into()),
            Self::Null | Self::Nested => None,
        }
    }

    /// The value as a number. A text that contains a number counts too.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => Number::parse(text),
            _ => None,
        }
    }

    /// The value as JSON.
    pub(crate) fn to_json(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(is) => is.to_string(),
            Self::Number(Number::Whole(whole)) => whole.to_string(),
            Self::Number(Number::Real(real)) if real.is_finite() => real.to_string(),
            Self::Number(Number::Real(_)) => "null".to_owned(),
            Self::Text(text) => quoted(text),
            Self::Nested => "{}".to_owned(),
        }
    }
}

/// A text as JSON, with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    // A text can always be written.
    serde_json::to_string(text).unwrap_or_default()
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Bool(is))
    }

    #[inline]
    fn visit_i64<E>(self, number: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Number(Number::Whole(number.into())))
    }

    #[inline]
    fn visit_u64<E>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Number(Number::Whole(number.into())))
    }

    #[inline]
    fn visit_f64<E>(self, number: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Number(Number::Real(number)))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested)
    }
}

/// The number of whole numbers in a JSON text that are beyond 64 bits and differ from the nearest double.
/// Numbers in texts are left out, because they are read at any length.
pub(crate) fn rounded_beyond_64_bits(body: &[u8]) -> u64 {
    let (mut count, mut at) = (0, 0);
    while let Some(byte) = body.get(at) {
        at += match byte {
            b'"' => text_len(&body[at..]),
            b'-' | b'0'..=b'9' => {
                let is_of_number =
                    |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let length = body[at..].iter().take_while(is_of_number).count();
                count += u64::from(is_rounded_whole(&body[at..at + length]));
                length
            }
            _ => 1,
        };
    }
    count
}

/// A copy of a body in which numbers that JSON does not have (`NaN`, `Infinity`, `1e999`) are texts. `None` if there
/// are none outside of texts.
pub(crate) fn with_quoted_numbers(body: &[u8]) -> Option<Vec<u8>> {
    let mut quoted = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(byte) = body.get(at) {
        let length = match byte {
            b'"' => text_len(&body[at..]),
            byte if is_of_word(*byte) => body[at..].iter().take_while(|byte| is_of_word(**byte)).count(),
            _ => 1,
        };
        let word = &body[at..at + length];
        if is_not_finite(word) {
            quoted.extend_from_slice(&body[copied..at]);
            quoted.push(b'"');
            quoted.extend_from_slice(word);
            quoted.push(b'"');
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return None;
    }
    quoted.extend_from_slice(&body[copied..]);
    Some(quoted)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

fn is_not_finite(word: &[u8]) -> bool {
    let is_infinite = |number| matches!(number, Number::Real(real) if real.is_infinite());
    matches!(word, b"NaN" | b"Infinity" | b"-Infinity")
        || std::str::from_utf8(word).ok().and_then(Number::parse).is_some_and(is_infinite)
}

/// The body without the byte order mark that some programs write in front of a text.
pub(crate) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// The length of the quoted text at the beginning.
fn text_len(text: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match text.get(at) {
            None => return text.len(),
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

fn is_rounded_whole(number: &[u8]) -> bool {
    let Some(Number::Whole(whole)) = std::str::from_utf8(number).ok().and_then(Number::parse) else {
        return false;
    };
    let is_beyond = whole > u64::MAX.into() || whole < i64::MIN.into();
    is_beyond && Number::Whole(whole).to_double().1
}

/// A key of an object.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyText;
        impl<'de> Visitor<'de> for KeyText {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            #[inline]
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyText)
    }
}
/// Writes a finite number. Whole numbers are written without a fraction.
pub(crate) fn write_number(value: f64, out: &mut String) {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        out.push_str(itoa::Buffer::new().format(value as i64));
    } else {
        out.push_str(zmij::Buffer::new().format_finite(value));
    }
}

/// Whether a value is `true` or the text "true". `None` if it is neither a boolean nor a text.
pub(crate) fn is_true(value: &serde_json::Value) -> Option<bool> {
    match value {
        serde_json::Value::Bool(is) => Some(*is),
        serde_json::Value::String(text) => Some(text.eq_ignore_ascii_case("true")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_does_not_have_become_texts() {
        for (body, quoted) in [
            ("[NaN,-Infinity, Infinity]", Some(r#"["NaN","-Infinity", "Infinity"]"#)),
            (r#"{"NaN":1e999,"b":-1e400}"#, Some(r#"{"NaN":"1e999","b":"-1e400"}"#)),
            ("NaN", Some("\"NaN\"")),
            (r#"["NaN", "a\"NaN", 1e300, null, xNaN, nan]"#, None),
            (r#"["NaN"#, None),
            (r#"["\"#, None),
            ("", None),
        ] {
            let made = with_quoted_numbers(body.as_bytes());
            assert_eq!(made.as_deref(), quoted.map(str::as_bytes), "{body}");
        }
    }

    #[test]
    fn only_whole_numbers_beyond_64_bits_are_counted() {
        for (body, count) in [
            (r#"[18446744073709551617, -9223372036854775809]"#, 2),
            // A power of two is exactly a double; the other numbers are counted where they are read.
            (r#"[36893488147419103232, 18446744073709551615, 9007199254740993]"#, 0),
            (r#"[1e30, 18446744073709551617.0, "18446744073709551617", "a\\\"18446744073709551617"]"#, 0),
            (r#"{"18446744073709551617":18446744073709551617}"#, 1),
            (r#"["cut 18446744073709551617"#, 0),
            (r#""\"#, 0),
        ] {
            assert_eq!(rounded_beyond_64_bits(body.as_bytes()), count, "{body}");
        }
    }
}
