//! The settings of the spool.

use std::time::Duration;

use plumbago_model::setting;
use serde::{Deserialize, Deserializer};

/// How much the spool keeps, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolConfig {
    /// Most bytes of slices, retained ones included; none (or 0) chooses a fifth of the disk. Retained
    /// slices give way to new ones; when even that is not enough, commits are refused.
    #[serde(deserialize_with = "optional_size")]
    pub max_bytes: Option<u64>,
    /// No commit is taken while the disk has less room than this.
    #[serde(deserialize_with = "setting::size")]
    pub min_free_bytes: u64,
    /// How long slices are kept after their acknowledgement; while a server is away they are kept on. A
    /// server without a durable log may lose what it acknowledged up to 15 minutes ago: 20 minutes then.
    #[serde(deserialize_with = "setting::period")]
    pub retain: Duration,
    /// How long the sender leaves new slices to gather when it has caught up: what is young is seen
    /// through the spool, and larger requests cost the server less.
    #[serde(deserialize_with = "setting::period")]
    pub gather: Duration,
}

impl Default for SpoolConfig {
    fn default() -> Self {
        Self {
            max_bytes: None,
            min_free_bytes: 256 << 20,
            retain: Duration::from_secs(20 * 60),
            gather: Duration::from_secs(5),
        }
    }
}

fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    setting::size(deserializer).map(|bytes| (bytes > 0).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let config: SpoolConfig =
            serde_json::from_str(r#"{"max_bytes": "2GiB", "retain": "20m", "gather": "0s"}"#).unwrap();
        assert_eq!(config.max_bytes, Some(2 << 30));
        assert_eq!(config.retain, Duration::from_secs(1200));
        assert_eq!(config.gather, Duration::ZERO);
        assert_eq!(serde_json::from_str::<SpoolConfig>("{}").unwrap(), SpoolConfig::default());
        for wrong in [r#"{"retain": 60}"#, r#"{"max_bytes": "all"}"#, r#"{"keep": "1s"}"#] {
            assert!(serde_json::from_str::<SpoolConfig>(wrong).is_err(), "{wrong}");
        }
    }
}
