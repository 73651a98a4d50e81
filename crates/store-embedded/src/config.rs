//! Settings of the embedded store.

use plumbago_model::{ByteSize, Period};
use serde::{Deserialize, Deserializer, de};

/// The `[store.embedded]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Memory for blocks that were read from the disk, in bytes.
    pub cache_bytes: ByteSize,
    /// Memory for columns that were read recently, in bytes; 0 keeps none.
    pub columns_bytes: ByteSize,
    /// Raw slots per block. Longer blocks use less disk space and more memory in the heads.
    #[serde(deserialize_with = "block_slots")]
    pub block_slots: u32,
    /// The free disk space in bytes below which commits are refused. Tables are written in the
    /// background, so the limit is larger than the space that one commit needs.
    pub min_free_bytes: ByteSize,
    /// How long after its last slot a bucket is closed and merged into long blocks.
    pub merge_after: Period,
    /// Effort of pco for long blocks, 0 to 12. With a higher effort blocks are smaller, and compression is
    /// slower.
    #[serde(deserialize_with = "merge_effort")]
    pub merge_effort: u8,
    /// Size of a keyspace's rows in memory, in bytes, from which they are written to a table. This is not a
    /// setting: it follows from the memory ceiling of the process.
    #[serde(skip)]
    pub memtable_bytes: ByteSize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cache_bytes: ByteSize::mib(64),
            columns_bytes: ByteSize::mib(64),
            block_slots: 40,
            min_free_bytes: ByteSize::mib(1024),
            merge_after: Period::seconds(2 * 3600),
            merge_effort: 4,
            memtable_bytes: ByteSize::mib(16),
        }
    }
}

/// A number of the settings: files have it as a number, the environment has it as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u32),
    Text(String),
}

fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    name: &str,
    min: u32,
    max: u32,
) -> Result<u32, D::Error> {
    let number = match Number::deserialize(deserializer)? {
        Number::Number(number) => Some(number),
        Number::Text(text) => text.parse().ok(),
    };
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(de::Error::custom(format!("{name} is a number from {min} to {max}"))),
    }
}

fn block_slots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    number(deserializer, "block_slots", 8, 240)
}

fn merge_effort<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    number(deserializer, "merge_effort", 0, 12).map(|n| n as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let text = r#"{"cache_bytes": "1GiB", "block_slots": 60, "min_free_bytes": "5MiB",
                       "merge_after": "1d", "merge_effort": "8"}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        assert_eq!(config.cache_bytes.0, 1 << 30);
        assert_eq!((config.block_slots, config.merge_effort), (60, 8));
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), Config::default());
    }

    #[test]
    fn refuses_wrong_settings() {
        for wrong in [
            r#"{"block_slots": 0}"#,
            r#"{"block_slots": 1000}"#,
            r#"{"merge_effort": 13}"#,
            r#"{"cache": "1GiB"}"#,
        ] {
            assert!(serde_json::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }
}
