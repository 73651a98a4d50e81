//! Settings of the spool.

use std::time::Duration;

use plumbago_model::{Period, setting};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The `[spool]` section: how much the spool keeps, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolConfig {
    /// Limit on the bytes of all slices, including retained ones. `None` (0 in the file) is a fifth of the
    /// disk. Retained slices are dropped to make room for new ones. If that is not enough, commits are
    /// refused.
    #[serde(deserialize_with = "optional_size")]
    pub max_bytes: Option<u64>,
    /// Commits are refused while the disk has less free space than this.
    #[serde(deserialize_with = "setting::size")]
    pub min_free_bytes: u64,
    /// How long slices are retained after their acknowledgement; longer while a server is down. `None`
    /// (`"auto"` in the file) is a minute, or 20 minutes while the servers keep no commit log, because then
    /// they may lose rows that they acknowledged up to 15 minutes ago.
    #[serde(deserialize_with = "optional_period")]
    pub retain: Option<Duration>,
    /// How long new slices collect before a sender that has caught up sends them. Larger requests cost the
    /// server less, and readers see the rows through the spool.
    #[serde(deserialize_with = "setting::period")]
    pub linger: Duration,
    /// Bytes of a memtable before it is written to disk, and of the block cache. This is not a setting; it
    /// follows from the memory ceiling of the process.
    #[serde(skip)]
    pub memtable_bytes: u64,
}

impl Default for SpoolConfig {
    fn default() -> Self {
        Self {
            max_bytes: None,
            min_free_bytes: 256 << 20,
            retain: None,
            linger: Duration::from_secs(5),
            memtable_bytes: 16 << 20,
        }
    }
}

fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    setting::size(deserializer).map(|bytes| (bytes > 0).then_some(bytes))
}

fn optional_period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "auto" => Ok(None),
        text => text.parse::<Period>().map(|period| Some(period.0)).map_err(D::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let config: SpoolConfig =
            serde_json::from_str(r#"{"max_bytes": "2GiB", "retain": "20m", "linger": "0s"}"#).unwrap();
        assert_eq!(config.max_bytes, Some(2 << 30));
        assert_eq!(config.retain, Some(Duration::from_secs(1200)));
        assert_eq!(config.linger, Duration::ZERO);
        let config: SpoolConfig = serde_json::from_str(r#"{"retain": "auto"}"#).unwrap();
        assert_eq!(config.retain, None);
        assert_eq!(serde_json::from_str::<SpoolConfig>("{}").unwrap(), SpoolConfig::default());
        for wrong in [r#"{"retain": 60}"#, r#"{"max_bytes": "all"}"#, r#"{"keep": "1s"}"#] {
            assert!(serde_json::from_str::<SpoolConfig>(wrong).is_err(), "{wrong}");
        }
    }
}
