//! The settings of peers.

use std::path::PathBuf;

use plumbago_model::Period;
use serde::Deserialize;

use super::connect;

/// The `[cluster]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Admin ports of the other daemons, as `host:port`. May include this daemon.
    pub peers: Vec<String>,
    /// Bearer token of those ports; if empty, the token of this daemon's admin port is sent.
    pub token: String,
    /// Path of a PEM file with the authorities that sign the certificates of those ports; empty if the ports
    /// are not encrypted.
    pub ca: PathBuf,
    /// How long a read waits for the peers.
    pub timeout: Period,
}

impl Default for Config {
    fn default() -> Self {
        Self { peers: Vec::new(), token: String::new(), ca: PathBuf::new(), timeout: Period::seconds(1) }
    }
}

impl Config {
    /// Returns all problems of the section, each as `key: message`. Reads the file `ca`.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for peer in &self.peers {
            let port = peer.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if port.and_then(|port| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
                problems
                    .push(format!("cluster.peers: {peer:?} is not a host and port like \"10.0.0.2:8081\""));
            }
        }
        if !self.ca.as_os_str().is_empty()
            && let Err(error) = connect::tls(&self.ca)
        {
            problems.push(format!("cluster.ca: {error}"));
        }
        if self.timeout.is_zero() {
            problems.push("cluster.timeout: must not be 0".to_owned());
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_peers_are_named() {
        let config = Config {
            peers: ["a:1", "[::1]:2", "a", ":3", "b:0", "c:x"].map(str::to_owned).to_vec(),
            timeout: Period::default(),
            ca: "/nowhere/ca.pem".into(),
            ..Config::default()
        };
        let problems = config.problems();
        assert_eq!(problems.len(), 6);
        assert!(
            problems
                .iter()
                .any(|text| text.starts_with("cluster.ca: cannot use /nowhere/ca.pem: No such file"))
        );
        assert!(Config::default().problems().is_empty());
    }
}
