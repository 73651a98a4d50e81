//! The `[maintenance]` section.

use std::time::Duration;

use plumbago_model::{Period, setting};
use serde::Deserialize;

/// When jobs run, and how carefully. An interval of 0 switches a job off.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How often empty directories are removed.
    #[serde(deserialize_with = "setting::period")]
    pub clean_directories_every: Duration,
    /// How often rows that no reader can use are removed, and metrics that are not listed are listed.
    #[serde(deserialize_with = "setting::period")]
    pub clean_rows_every: Duration,
    /// How often missing directories are created.
    #[serde(deserialize_with = "setting::period")]
    pub repair_directories_every: Duration,
    /// How often metrics that nobody writes any more are looked for.
    #[serde(deserialize_with = "setting::period")]
    pub expire_every: Duration,
    /// Metrics without a point for so long are deleted, their points with them where they do not
    /// expire by themselves; 0 deletes none.
    #[serde(deserialize_with = "setting::period")]
    pub expire_after: Duration,
    /// Rows that a job looks at in a second, at most; 0 for no limit.
    pub rows_per_second: u32,
    /// What was written in this time is left alone: a creation may be under way.
    #[serde(deserialize_with = "setting::period")]
    pub grace: Duration,
    /// How long after a deletion a job looks again whether somebody came to rely on what it deleted.
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
            expire_every: days(1),
            expire_after: Duration::ZERO,
            rows_per_second: 5000,
            grace: Duration::from_secs(600),
            settle: Duration::from_secs(10),
        }
    }
}

/// BigGraphite notes only every three days that a metric is written; twice that is surely over.
pub const EXPIRE_AFTER_MIN: Duration = Duration::from_secs(6 * 86_400);

impl Config {
    /// What is wrong with the values, as `key: message`.
    pub fn problems(&self) -> Vec<String> {
        let problem = expire_problem(self.expire_after);
        problem.map(|message| format!("maintenance.expire_after: {message}")).into_iter().collect()
    }
}

/// Why metrics cannot be deleted after so long without a point; 0 is none at all.
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
