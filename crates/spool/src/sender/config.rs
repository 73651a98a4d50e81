//! Settings of the sender.

use std::time::Duration;

use plumbago_model::setting;
use serde::Deserialize;

/// The `[sender]` section: how the sender handles a remote store that fails.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SenderConfig {
    /// The pause after the first failure of a call. It doubles with each further failure, up to
    /// [`SenderConfig::retry_max`].
    #[serde(deserialize_with = "setting::period")]
    pub retry_first: Duration,
    /// The longest pause between two tries of a call.
    #[serde(deserialize_with = "setting::period")]
    pub retry_max: Duration,
    /// A call that fails for this long while others succeed is deferred.
    #[serde(deserialize_with = "setting::period")]
    pub defer_after: Duration,
    /// The interval at which deferred rows are retried.
    #[serde(deserialize_with = "setting::period")]
    pub retry_deferred_every: Duration,
}

impl SenderConfig {
    /// Checks the section. Returns one text of the form `key: message` per problem.
    pub fn problems(&self) -> Vec<String> {
        let pauses = [
            ("retry_first", self.retry_first),
            ("retry_max", self.retry_max),
            ("retry_deferred_every", self.retry_deferred_every),
        ];
        let zeros = pauses.into_iter().filter(|(_, pause)| pause.is_zero());
        zeros
            .map(|(key, _)| {
                format!("sender.{key}: must not be 0: a failing server would get requests without a pause")
            })
            .collect()
    }
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            retry_first: Duration::from_millis(50),
            retry_max: Duration::from_secs(5),
            defer_after: Duration::from_secs(60),
            retry_deferred_every: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let config: SenderConfig = serde_json::from_str(r#"{"defer_after": "5m"}"#).unwrap();
        assert_eq!(config, SenderConfig { defer_after: Duration::from_secs(300), ..SenderConfig::default() });
        assert!(serde_json::from_str::<SenderConfig>(r#"{"defer_after": 5}"#).is_err());
    }

    #[test]
    fn retries_have_a_pause() {
        assert_eq!(SenderConfig::default().problems(), Vec::<String>::new());
        let config = SenderConfig { retry_first: Duration::ZERO, ..SenderConfig::default() };
        assert!(config.problems()[0].starts_with("sender.retry_first: must not be 0"));
    }
}
