//! The journal's settings.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use plumbago_model::{Period, setting};
use serde::{Deserialize, Deserializer, de};

/// When written frames are synced. Synced frames survive a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// No sync while the process runs. The operating system decides when data reaches the disk.
    Off,
    /// A background thread syncs at this interval, which is at least one millisecond.
    Every(Duration),
}

/// The `[journal]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `"off"`, or the interval between syncs. Power loss costs at most the points of one interval.
    pub sync: SyncPolicy,
    /// The time that one segment covers, at least one second. Segments are dropped as a whole.
    #[serde(deserialize_with = "covered")]
    pub segment: Duration,
    /// Limit on the bytes in live segments. At the limit, points are refused until a segment is dropped.
    /// `None` means no limit.
    #[serde(deserialize_with = "optional_size")]
    pub max_bytes: Option<u64>,
    /// Points are refused while the disk has fewer free bytes than this. Use 0 only in tests: even removing
    /// a file can need some free space.
    #[serde(deserialize_with = "setting::size")]
    pub min_free_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sync: SyncPolicy::Every(Duration::from_secs(1)),
            segment: Duration::from_secs(300),
            max_bytes: None,
            min_free_bytes: 64 << 20,
        }
    }
}

impl Display for SyncPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Every(interval) => Period(*interval).fmt(f),
        }
    }
}

impl FromStr for SyncPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        match text.parse::<Period>() {
            Ok(period) if period.0 >= Duration::from_millis(1) => Ok(Self::Every(period.0)),
            _ => Err(format!("{text:?} is neither \"off\" nor an interval like \"1s\" or \"100ms\"")),
        }
    }
}

impl<'de> Deserialize<'de> for SyncPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        setting::from_text(deserializer)
    }
}

fn covered<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let period = setting::period(deserializer)?;
    if period < Duration::from_secs(1) {
        return Err(de::Error::custom("a segment covers at least 1s"));
    }
    Ok(period)
}

fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    setting::size(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let config: Config = serde_json::from_str(
            r#"{"sync": "100ms", "segment": "1m", "max_bytes": "2GiB", "min_free_bytes": "1MiB"}"#,
        )
        .unwrap();
        assert_eq!(config.sync, SyncPolicy::Every(Duration::from_millis(100)));
        assert_eq!(config.segment, Duration::from_secs(60));
        assert_eq!(config.max_bytes, Some(2 << 30));
        assert_eq!(config.min_free_bytes, 1 << 20);
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), Config::default());
        let off: Config = serde_json::from_str(r#"{"sync": "off"}"#).unwrap();
        assert_eq!(off.sync, SyncPolicy::Off);
        assert_eq!(Config::default().sync.to_string(), "1s");
    }

    #[test]
    fn refuses_wrong_settings() {
        for wrong in [
            r#"{"sync": "0s"}"#,
            r#"{"sync": "1"}"#,
            r#"{"sync": 1}"#,
            r#"{"segment": "10ms"}"#,
            r#"{"max_bytes": "much"}"#,
            r#"{"retain": "1s"}"#,
        ] {
            assert!(serde_json::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }
}
