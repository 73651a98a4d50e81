//! The settings of the sender.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use plumbago_model::Period;
use serde::{Deserialize, Deserializer, de};

/// How the sender treats a remote store that fails.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SenderConfig {
    /// The first pause after a failed call; doubled after each further one, up to
    /// [`SenderConfig::retry_max`].
    #[serde(deserialize_with = "period")]
    pub retry_first: Duration,
    /// The longest pause between two tries.
    #[serde(deserialize_with = "period")]
    pub retry_max: Duration,
    /// A call that fails for so long while others succeed is put aside.
    #[serde(deserialize_with = "period")]
    pub patience: Duration,
    /// How often what was put aside is tried again.
    #[serde(deserialize_with = "period")]
    pub parked_every: Duration,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            retry_first: Duration::from_millis(50),
            retry_max: Duration::from_secs(5),
            patience: Duration::from_secs(60),
            parked_every: Duration::from_secs(60),
        }
    }
}

fn period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text::<D, Period>(deserializer).map(|period| period.0)
}

fn from_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let config: SenderConfig = serde_json::from_str(r#"{"patience": "5m"}"#).unwrap();
        assert_eq!(config, SenderConfig { patience: Duration::from_secs(300), ..SenderConfig::default() });
        assert!(serde_json::from_str::<SenderConfig>(r#"{"patience": 5}"#).is_err());
    }
}
