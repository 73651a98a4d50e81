//! The `[maintenance]` section.

use std::time::Duration;

use plumbago_model::{Period, setting};
use serde::Deserialize;

/// How often jobs run and what they do not touch. A job with the interval 0 runs only on request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How often empty directories are removed.
    #[serde(deserialize_with = "setting::period")]
    pub clean_directories_every: Duration,
    /// How often rows that no reader can use are deleted, and unlisted metrics are listed so that globs find
    /// them.
    #[serde(deserialize_with = "setting::period")]
    pub clean_rows_every: Duration,
    /// How often missing directories are created.
    #[serde(deserialize_with = "setting::period")]
    pub repair_directories_every: Duration,
    /// How often the windows of the last two days are compared with their raw slots and corrected.
    #[serde(deserialize_with = "setting::period")]
    pub repair_windows_every: Duration,
    /// The shortest time after the end of a window until it is compared, in addition to 60 raw slots: writers
    /// store their windows some time after the end.
    #[serde(deserialize_with = "setting::period")]
    pub repair_windows_after: Duration,
    /// How often metrics without new points are searched for and deleted.
    #[serde(deserialize_with = "setting::period")]
    pub expire_every: Duration,
    /// Metrics that got no point for this long are deleted; 0 deletes none. Their points are deleted too,
    /// unless they expire by themselves.
    #[serde(deserialize_with = "setting::period")]
    pub expire_after: Duration,
    /// How often existing metrics get the settings of the storage rules.
    #[serde(deserialize_with = "setting::period")]
    pub apply_rules_every: Duration,
    /// The largest number of rows that a job reads per second; 0 for no limit.
    pub rows_per_second: u32,
    /// Rows younger than this are not deleted, because their creation may still be in progress.
    #[serde(deserialize_with = "setting::period")]
    pub grace: Duration,
    /// How long after a deletion the job checks again whether a new metric needs the deleted row.
    #[serde(deserialize_with = "setting::period")]
    pub settle: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        Self {
            clean_directories_every: days(1),
            clean_rows_every: days(1),
            repair_directories_every: days(7),
            repair_windows_every: Duration::ZERO,
            repair_windows_after: Duration::from_secs(600),
            expire_every: days(1),
            expire_after: Duration::ZERO,
            apply_rules_every: Duration::ZERO,
            rows_per_second: 5000,
            grace: Duration::from_secs(600),
            settle: Duration::from_secs(10),
        }
    }
}

/// The smallest `expire_after`. BigGraphite updates the write time of a metric only every three days;
/// after twice that time a metric without an update is no longer written.
pub const EXPIRE_AFTER_MIN: Duration = Duration::from_secs(6 * 86_400);

impl Config {
    /// All problems of the section, as `key: message`.
    pub fn problems(&self) -> Vec<String> {
        let problem = expire_problem(self.expire_after);
        problem.map(|message| format!("maintenance.expire_after: {message}")).into_iter().collect()
    }
}

/// Why this value of `expire_after` is not allowed; `None` if it is.
pub fn expire_problem(after: Duration) -> Option<String> {
    let too_short = !after.is_zero() && after < EXPIRE_AFTER_MIN;
    too_short.then(|| {
        format!(
            "{} is less than {}: a store may say only every three days that a metric is written",
            Period(after),
            Period(EXPIRE_AFTER_MIN)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let config: Config =
            serde_json::from_str(r#"{"expire_after": "30d", "grace": "1m", "rows_per_second": 0}"#).unwrap();
        assert_eq!(config.expire_after, Duration::from_secs(30 * 86_400));
        assert!(config.problems().is_empty() && Config::default().problems().is_empty());
        let config: Config = serde_json::from_str(r#"{"expire_after": "3d"}"#).unwrap();
        assert!(config.problems()[0].starts_with("maintenance.expire_after: "));
        assert!(serde_json::from_str::<Config>(r#"{"grace": 60}"#).is_err());
    }
}
