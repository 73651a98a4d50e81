//! The settings of the sender.

use std::time::Duration;

use plumbago_model::setting;
use serde::Deserialize;

/// How the sender treats a remote store that fails.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SenderConfig {
    /// The first pause after a failed call; doubled after each further one, up to
    /// [`SenderConfig::retry_max`].
    #[serde(deserialize_with = "setting::period")]
    pub retry_first: Duration,
    /// The longest pause between two tries.
    #[serde(deserialize_with = "setting::period")]
    pub retry_max: Duration,
    /// A call that fails for so long while others succeed is put aside.
    #[serde(deserialize_with = "setting::period")]
    pub patience: Duration,
    /// How often what was put aside is tried again.
    #[serde(deserialize_with = "setting::period")]
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
