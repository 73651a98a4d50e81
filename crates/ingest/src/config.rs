//! The settings of the listeners.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use plumbago_model::setting;
use plumbago_tls::{Certificates, Files, TlsError};
use serde::Deserialize;

use crate::name::NameOptions;
use crate::relabel::Rules;

/// Largest frame that can be set: what the pickle decoder can address.
const FRAME_BYTES_LIMIT: u64 = 256 << 20;

/// The `[ingest]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The line protocol on TCP.
    pub line: LineConfig,
    /// The line protocol on UDP.
    pub udp: UdpConfig,
    /// The pickle protocol on TCP.
    pub pickle: PickleConfig,
    /// The protobuf protocol on TCP.
    pub protobuf: ProtobufConfig,
    /// `a..b` and `.a.b.` are the metric `a.b`, as they were on whisper's disk. reload: no
    pub fold_empty_components: bool,
    /// A blank in a tag's value, which some senders write, becomes `_`; otherwise the line is refused,
    /// as carbon does. reload: no
    pub blanks_in_tags: bool,
    /// File of patterns, one a line; a name that one of them matches is refused. reload: yes
    pub blacklist: String,
    /// File of patterns, one a line; a name that none of them matches is refused. reload: yes
    pub whitelist: String,
    /// Carbon's `rewrite-rules.conf`. reload: yes
    pub rewrite_rules: String,
    /// What large frames may hold of the memory, all connections together. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub frame_memory_bytes: u64,
}

/// The `[ingest.line]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LineConfig {
    /// Address and port; empty switches the listener off. reload: no
    pub listen: String,
    /// Longest line; a longer one is skipped and counted. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub line_bytes_max: u64,
    /// Connections open at once; more wait. One that was silent for a minute gives way to them. reload: no
    pub connections_max: usize,
    /// A connection that is silent for so long is closed; `"0s"` never closes it. reload: no
    #[serde(deserialize_with = "setting::period")]
    pub idle_timeout: Duration,
    /// Encryption. reload: the files, yes
    pub tls: TlsConfig,
}

/// The `[ingest.udp]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UdpConfig {
    /// Address and port; empty switches the listener off. reload: no
    pub listen: String,
    /// Longest line; a longer one is skipped and counted. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub line_bytes_max: u64,
    /// The kernel's receive buffer that is asked for; it may grant less. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub receive_buffer_bytes: u64,
}

/// The `[ingest.pickle]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PickleConfig {
    /// Address and port; empty switches the listener off. reload: no
    pub listen: String,
    /// Longest frame; a longer one closes its connection. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub frame_bytes_max: u64,
    /// Connections open at once; more wait. One that was silent for a minute gives way to them. reload: no
    pub connections_max: usize,
    /// A connection that is silent for so long is closed; `"0s"` never closes it. reload: no
    #[serde(deserialize_with = "setting::period")]
    pub idle_timeout: Duration,
    /// Encryption. reload: the files, yes
    pub tls: TlsConfig,
}

/// The `[ingest.protobuf]` section; off until an address is given (2005 by custom).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProtobufConfig {
    /// Address and port; empty switches the listener off. reload: no
    pub listen: String,
    /// Longest frame; a longer one closes its connection. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub frame_bytes_max: u64,
    /// Connections open at once; more wait. One that was silent for a minute gives way to them. reload: no
    pub connections_max: usize,
    /// A connection that is silent for so long is closed; `"0s"` never closes it. reload: no
    #[serde(deserialize_with = "setting::period")]
    pub idle_timeout: Duration,
    /// Encryption. reload: the files, yes
    pub tls: TlsConfig,
}

/// The encryption of one listener; off while both names are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file of the certificate and its chain.
    pub cert: String,
    /// PEM file of its private key.
    pub key: String,
    /// PEM file of the authorities that must have signed a client's certificate; empty asks for none.
    pub client_ca: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            line: LineConfig::default(),
            udp: UdpConfig::default(),
            pickle: PickleConfig::default(),
            protobuf: ProtobufConfig::default(),
            fold_empty_components: true,
            blanks_in_tags: false,
            blacklist: String::new(),
            whitelist: String::new(),
            rewrite_rules: String::new(),
            frame_memory_bytes: 256 << 20,
        }
    }
}

impl Default for LineConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:2003".to_owned(),
            line_bytes_max: 16 << 10,
            connections_max: 4096,
            idle_timeout: Duration::ZERO,
            tls: TlsConfig::default(),
        }
    }
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self { listen: "127.0.0.1:2003".to_owned(), line_bytes_max: 16 << 10, receive_buffer_bytes: 8 << 20 }
    }
}

impl Default for PickleConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:2004".to_owned(),
            frame_bytes_max: 1 << 20,
            connections_max: 4096,
            idle_timeout: Duration::ZERO,
            tls: TlsConfig::default(),
        }
    }
}

impl Default for ProtobufConfig {
    fn default() -> Self {
        Self {
            listen: String::new(),
            frame_bytes_max: 1 << 20,
            connections_max: 4096,
            idle_timeout: Duration::ZERO,
            tls: TlsConfig::default(),
        }
    }
}

impl TlsConfig {
    /// True when the listener speaks TLS.
    pub fn is_on(&self) -> bool {
        !self.cert.is_empty() || !self.key.is_empty()
    }

    pub(crate) fn files(&self) -> Files {
        let [cert, key, client_ca] = [&self.cert, &self.key, &self.client_ca].map(PathBuf::from);
        Files { cert, key, client_ca }
    }

    /// What its files hold now.
    pub(crate) fn load(&self) -> Result<Certificates, TlsError> {
        // Senders never read. A ticket that waits unread when a sender closes makes its kernel reset the
        // connection, and what was on its way to us is lost.
        Certificates::load(&self.files(), |config| config.send_tls13_tickets = 0)
    }
}

impl Config {
    /// Everything that is wrong, each with its key; the files that are named are read.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Problems(Vec::new());
        let tcp = [
            ("line", &self.line.listen, &self.line.tls, self.line.connections_max),
            ("pickle", &self.pickle.listen, &self.pickle.tls, self.pickle.connections_max),
            ("protobuf", &self.protobuf.listen, &self.protobuf.tls, self.protobuf.connections_max),
        ];
        let mut taken = HashMap::new();
        for (section, listen, tls, connections_max) in tcp {
            let address = problems.address(section, listen);
            if let Some(other) = address.filter(|a| a.port() != 0).and_then(|a| taken.insert(a, section)) {
                problems.add(section, "listen", format!("{listen} is taken by ingest.{other}"));
            }
            problems.range(section, "connections_max", connections_max as u64, 1, 1 << 20);
            problems.tls(section, tls);
        }
        problems.address("udp", &self.udp.listen);
        problems.range("line", "line_bytes_max", self.line.line_bytes_max, 64, 1 << 20);
        problems.range("udp", "line_bytes_max", self.udp.line_bytes_max, 64, 1 << 20);
        problems.range("udp", "receive_buffer_bytes", self.udp.receive_buffer_bytes, 4096, 1 << 30);
        problems.range("pickle", "frame_bytes_max", self.pickle.frame_bytes_max, 1024, FRAME_BYTES_LIMIT);
        problems.range("protobuf", "frame_bytes_max", self.protobuf.frame_bytes_max, 1024, FRAME_BYTES_LIMIT);
        let largest = self.pickle.frame_bytes_max.max(self.protobuf.frame_bytes_max);
        if self.frame_memory_bytes < largest.saturating_mul(2) {
            problems
                .0
                .push("ingest.frame_memory_bytes: must be at least twice the largest frame_bytes_max".into());
        }
        if let Err(error) = Rules::load(self) {
            problems.0.extend(error.0.iter().map(|problem| format!("ingest: {problem}")));
        }
        problems.0
    }

    pub(crate) fn names(&self) -> NameOptions {
        NameOptions { fold_empty_components: self.fold_empty_components, blanks_in_tags: self.blanks_in_tags }
    }
}

struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, section: &str, key: &str, message: impl Display) {
        self.0.push(format!("ingest.{section}.{key}: {message}"));
    }

    fn address(&mut self, section: &str, listen: &str) -> Option<SocketAddr> {
        if listen.is_empty() {
            return None;
        }
        match resolve(listen) {
            Ok(address) => Some(address),
            Err(message) => {
                self.add(section, "listen", message);
                None
            }
        }
    }

    fn range(&mut self, section: &str, key: &str, value: u64, least: u64, most: u64) {
        if !(least..=most).contains(&value) {
            self.add(section, key, format_args!("{value} is not between {least} and {most}"));
        }
    }

    fn tls(&mut self, section: &str, tls: &TlsConfig) {
        if let Err(error) = tls.load() {
            self.add(section, "tls", error);
        }
    }
}

/// The address that `host:port` means.
pub(crate) fn resolve(listen: &str) -> Result<SocketAddr, String> {
    let first = listen.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    first.ok_or_else(|| format!("{listen:?} is no address; write host:port, like \"0.0.0.0:2003\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), Config::default());
        let config: Config = serde_json::from_str(
            r#"{"line": {"listen": "", "line_bytes_max": "32KiB", "idle_timeout": "2m"},
                "pickle": {"frame_bytes_max": "16MiB", "tls": {"cert": "c.pem", "key": "k.pem"}},
                "protobuf": {"listen": "[::]:2005"}, "fold_empty_components": false}"#,
        )
        .unwrap();
        assert_eq!(config.line.line_bytes_max, 32 << 10);
        assert_eq!(config.line.idle_timeout, Duration::from_secs(120));
        assert_eq!(
            (config.pickle.listen.as_str(), config.pickle.frame_bytes_max),
            ("127.0.0.1:2004", 16 << 20)
        );
        assert_eq!(config.protobuf.listen, "[::]:2005");
        assert!(config.pickle.tls.is_on() && !config.line.tls.is_on());
        for wrong in [r#"{"lines": {}}"#, r#"{"line": {"idle_timeout": "2"}}"#, r#"{"udp": {"tls": {}}}"#] {
            assert!(serde_json::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_defaults_have_no_problem() {
        assert_eq!(Config::default().problems(), Vec::<String>::new());
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let mut config = Config::default();
        config.line.listen = "2003".into();
        config.line.line_bytes_max = 1;
        config.pickle.connections_max = 0;
        config.pickle.tls.cert = "/nowhere/cert.pem".into();
        config.protobuf.listen = config.pickle.listen.clone();
        config.protobuf.frame_bytes_max = 1 << 40;
        config.blacklist = "/nowhere/blacklist.conf".into();
        let problems = config.problems();
        for key in [
            "ingest.line.listen: \"2003\" is no address",
            "ingest.line.line_bytes_max: 1 is not between 64",
            "ingest.pickle.connections_max: 0",
            "ingest.pickle.tls: ",
            "ingest.protobuf.listen: 127.0.0.1:2004 is taken by ingest.pickle",
            "ingest.protobuf.frame_bytes_max: ",
            "ingest.frame_memory_bytes: ",
            "ingest: /nowhere/blacklist.conf: ",
        ] {
            assert!(problems.iter().any(|p| p.starts_with(key)), "{key} in {problems:#?}");
        }
    }
}
