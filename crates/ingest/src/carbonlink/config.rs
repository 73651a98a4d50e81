//! The settings of the port, `[carbonlink]`.

use std::time::Duration;

use plumbago_model::setting;
use serde::Deserialize;

use crate::config::{TlsConfig, resolve};

/// The `[carbonlink]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port. Empty switches the port off. reload: no
    pub listen: String,
    /// Longest request in bytes. A longer one closes its connection. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub frame_bytes_max: u64,
    /// Maximum number of metrics in one `cache-query-bulk`. A request with more is answered with an error. reload: no
    pub metrics_max: usize,
    /// Memory in bytes for requests and replies of all connections. One reply takes at most half of it. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub memory_bytes: u64,
    /// Largest number of open connections. Beyond it, new connections wait until another one ends. To make room, a
    /// connection that has been silent for a minute is closed. reload: no
    pub connections_max: usize,
    /// A connection without a request for this long is closed. Zero means never. reload: no
    #[serde(deserialize_with = "setting::period")]
    pub idle_timeout: Duration,
    /// TLS. reload: yes, the files
    pub tls: TlsConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: String::new(),
            frame_bytes_max: 1 << 20,
            metrics_max: 10_000,
            memory_bytes: 64 << 20,
            connections_max: 256,
            idle_timeout: Duration::from_secs(3600),
            tls: TlsConfig::default(),
        }
    }
}

impl Config {
    /// Whether the port is open.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty()
    }

    /// All problems of the settings, each as `key: message`. Reads the TLS files.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let (true, Err(message)) = (self.is_on(), resolve(&self.listen)) {
            problems.push(format!("carbonlink.listen: {message}"));
        }
        for (key, value, least, most) in [
            ("frame_bytes_max", self.frame_bytes_max, 1024, 64 << 20),
            ("metrics_max", self.metrics_max as u64, 1, 1 << 20),
            ("connections_max", self.connections_max as u64, 1, 1 << 20),
        ] {
            if !(least..=most).contains(&value) {
                problems.push(format!("carbonlink.{key}: {value} is not between {least} and {most}"));
            }
        }
        if self.memory_bytes < self.frame_bytes_max.saturating_mul(4) {
            problems.push("carbonlink.memory_bytes: must be at least four times frame_bytes_max".to_owned());
        }
        let of_tls = |error: plumbago_tls::TlsError| format!("carbonlink.tls.{}: {error}", error.setting());
        problems.extend(self.tls.files().problems().into_iter().map(of_tls));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_reported_at_once() {
        assert_eq!(Config::default().problems(), Vec::<String>::new());
        let config: Config = serde_json::from_str(
            r#"{"listen": "7002", "frame_bytes_max": "1KiB", "metrics_max": 0, "memory_bytes": "2KiB",
                "connections_max": 0, "idle_timeout": "0s", "tls": {"key": "/nowhere/key.pem"}}"#,
        )
        .unwrap();
        let problems = config.problems();
        for key in ["listen", "metrics_max", "memory_bytes", "connections_max", "tls.key"] {
            let start = format!("carbonlink.{key}: ");
            assert!(problems.iter().any(|p| p.starts_with(&start)), "{start} in {problems:#?}");
        }
    }
}
