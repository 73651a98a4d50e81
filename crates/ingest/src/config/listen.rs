//! The addresses of a listener.

use std::fmt;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

/// The addresses of a listener: none (the listener is off), one, or several. In the settings they are a text
/// or a list of texts. A text may contain several addresses, separated by commas, which environment variables
/// need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listen(Vec<String>);

impl Listen {
    /// Whether there is no address, so that the listener is off.
    pub fn is_off(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses as they are written, host and port each.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn add(&mut self, text: &str) {
        let addresses = text.split(',').map(str::trim).filter(|address| !address.is_empty());
        self.0.extend(addresses.map(str::to_owned));
    }
}

impl From<&str> for Listen {
    fn from(text: &str) -> Self {
        let mut listen = Self::default();
        listen.add(text);
        listen
    }
}

impl From<String> for Listen {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Addresses)
    }
}

struct Addresses;

impl<'de> Visitor<'de> for Addresses {
    type Value = Listen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address or a list of addresses")
    }

    fn visit_str<E>(self, text: &str) -> Result<Listen, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Listen, A::Error> {
        let mut listen = Listen::default();
        while let Some(text) = items.next_element::<String>()? {
            listen.add(&text);
        }
        Ok(listen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_or_a_list() {
        for (json, expected) in [
            (r#""""#, &[][..]),
            ("[]", &[]),
            (r#""127.0.0.1:2003""#, &["127.0.0.1:2003"]),
            (r#""0.0.0.0:2003, [::1]:2013,""#, &["0.0.0.0:2003", "[::1]:2013"]),
            (r#"["0.0.0.0:2003", "[::1]:2013"]"#, &["0.0.0.0:2003", "[::1]:2013"]),
        ] {
            let listen: Listen = serde_json::from_str(json).unwrap();
            assert_eq!(listen.iter().collect::<Vec<_>>(), expected, "{json}");
            assert_eq!(listen.is_off(), expected.is_empty(), "{json}");
        }
        assert!(serde_json::from_str::<Listen>("2003").is_err());
        let error = serde_json::from_str::<Listen>("[2003]").unwrap_err().to_string();
        assert!(error.starts_with("invalid type: ") && error.contains("expected a string"), "{error}");
    }
}
