//! The settings of the listeners, `[ingest]`.

mod listen;
mod tcp;
mod tls;

use std::fmt::{self, Display};
use std::net::{SocketAddr, ToSocketAddrs};

use plumbago_model::setting;
use plumbago_model::units::ByteSize;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::name::NameOptions;
use crate::protocol::{MessageLimit, TcpProtocol};
use crate::relabel::{RuleFiles, Rules};

pub use listen::Listen;
use tcp::{Section, unknown};
pub use tcp::{TcpConfig, TcpSections};
pub use tls::TlsConfig;

/// Keys of `[ingest]` that are not names of sections for protocols on TCP.
const OTHER_KEYS: [&str; 7] = [
    "udp",
    "fold_empty_components",
    "blanks_in_tags",
    "blacklist",
    "whitelist",
    "rewrite_rules",
    "frame_memory_bytes",
];

/// The `[ingest]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// One section for each protocol on TCP: `[ingest.line]`, `[ingest.pickle]` and so on.
    pub tcp: TcpSections,
    /// The line protocol on UDP.
    pub udp: UdpConfig,
    /// If true, `a..b` and `.a.b.` mean the metric `a.b`, as they did in whisper's directories. reload: no
    pub fold_empty_components: bool,
    /// If true, a blank in the value of a tag becomes `_`. If false, the line is refused, as in carbon.
    /// reload: no
    pub blanks_in_tags: bool,
    /// File with one pattern per line. A name that any of them matches is refused. Empty for none. reload: yes
    pub blacklist: String,
    /// File with one pattern per line. A name that none of them matches is refused. Empty for none. reload: yes
    pub whitelist: String,
    /// File of rewrite rules, carbon's `rewrite-rules.conf`. Empty for none. reload: yes
    pub rewrite_rules: String,
    /// Memory in bytes that incomplete large frames of all connections may take. reload: no
    pub frame_memory_bytes: u64,
}

/// The `[ingest.udp]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UdpConfig {
    /// Addresses and ports. An empty list switches the listener off. reload: no
    pub listen: Listen,
    /// Longest line in bytes. A longer one is skipped and counted. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub line_bytes_max: u64,
    /// Requested size of the kernel's receive buffer in bytes. The kernel may grant less. reload: no
    #[serde(deserialize_with = "setting::size")]
    pub receive_buffer_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tcp: TcpSections::default(),
            udp: UdpConfig::default(),
            fold_empty_components: true,
            blanks_in_tags: false,
            blacklist: String::new(),
            whitelist: String::new(),
            rewrite_rules: String::new(),
            frame_memory_bytes: 256 << 20,
        }
    }
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self { listen: "127.0.0.1:2003".into(), line_bytes_max: 16 << 10, receive_buffer_bytes: 8 << 20 }
    }
}

impl Config {
    /// All problems of the settings, each as `key: message`. Reads the files that the settings name. Does not
    /// compare the addresses of the listeners, because other ports of the process may overlap with them too.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Problems(Vec::new());
        for (TcpProtocol { name, limit, .. }, section) in self.tcp.iter() {
            problems.addresses(name, &section.listen);
            problems.range(name, "connections_max", section.connections_max as u64, 1, 1 << 20);
            problems.range(name, limit.key, section.message_bytes_max, limit.least, limit.most);
            problems.tls(name, &section.tls);
        }
        problems.addresses("udp", &self.udp.listen);
        let MessageLimit { key, least, most, .. } = MessageLimit::LINE;
        problems.range("udp", key, self.udp.line_bytes_max, least, most);
        problems.range("udp", "receive_buffer_bytes", self.udp.receive_buffer_bytes, 4096, 1 << 30);
        if self.frame_memory_bytes < self.largest_message_bytes().saturating_mul(2) {
            problems.0.push(
                "ingest.frame_memory_bytes: must be at least twice the largest frame_bytes_max or body_bytes_max"
                    .into(),
            );
        }
        if let Err(error) = Rules::load(self.rule_files()) {
            problems.0.extend(error.0.iter().map(|problem| format!("ingest.{}: {problem}", problem.setting)));
        }
        problems.0
    }

    /// The largest message limit of all listeners that are on, in bytes.
    pub fn largest_message_bytes(&self) -> u64 {
        let open = self.tcp.iter().filter(|(_, section)| !section.listen.is_off());
        open.map(|(_, section)| section.message_bytes_max).max().unwrap_or(0)
    }

    /// How names are normalised.
    pub fn names(&self) -> NameOptions {
        NameOptions { fold_empty_components: self.fold_empty_components, blanks_in_tags: self.blanks_in_tags }
    }

    /// The files of the lists and rewrite rules.
    pub fn rule_files(&self) -> RuleFiles<'_> {
        RuleFiles {
            blacklist: &self.blacklist,
            whitelist: &self.whitelist,
            rewrite_rules: &self.rewrite_rules,
        }
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Ingest)
    }
}

/// Reads `[ingest]`.
struct Ingest;

impl<'de> Visitor<'de> for Ingest {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the section [ingest]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Config, A::Error> {
        let mut config = Config::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "udp" => config.udp = map.next_value()?,
                "fold_empty_components" => config.fold_empty_components = map.next_value()?,
                "blanks_in_tags" => config.blanks_in_tags = map.next_value()?,
                "blacklist" => config.blacklist = map.next_value()?,
                "whitelist" => config.whitelist = map.next_value()?,
                "rewrite_rules" => config.rewrite_rules = map.next_value()?,
                "frame_memory_bytes" => config.frame_memory_bytes = map.next_value::<ByteSize>()?.0,
                name => {
                    let known = config.tcp.iter().map(|(protocol, _)| protocol.name);
                    let known: Vec<_> = known.chain(OTHER_KEYS).collect();
                    let Some((protocol, section)) = config.tcp.entry(name) else {
                        return Err(unknown(name, known));
                    };
                    *section = map.next_value_seed(Section(protocol))?;
                }
            }
        }
        Ok(config)
    }
}

struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, section: &str, key: &str, message: impl Display) {
        self.0.push(format!("ingest.{section}.{key}: {message}"));
    }

    fn addresses(&mut self, section: &str, listen: &Listen) {
        for message in listen.iter().filter_map(|address| resolve(address).err()) {
            self.add(section, "listen", message);
        }
    }

    fn range(&mut self, section: &str, key: &str, value: u64, least: u64, most: u64) {
        if !(least..=most).contains(&value) {
            self.add(section, key, format_args!("{value} is not between {least} and {most}"));
        }
    }

    fn tls(&mut self, section: &str, tls: &TlsConfig) {
        for error in tls.files().problems() {
            self.add(section, &format!("tls.{}", error.setting()), error);
        }
    }
}

/// Resolves `host:port`. The error is a message for the operator.
pub(crate) fn resolve(listen: &str) -> Result<SocketAddr, String> {
    let first = listen.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    first.ok_or_else(|| format!("{listen:?} is not an address; write host:port, like \"0.0.0.0:2003\""))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::Compression;

    #[test]
    fn reads_settings() {
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), Config::default());
        let config: Config = serde_json::from_str(
            r#"{"line": {"listen": "", "compression": "snappy", "line_bytes_max": "32KiB", "idle_timeout": "2m"},
                "pickle": {"frame_bytes_max": "16MiB", "tls": {"cert": "c.pem", "key": "k.pem"}},
                "protobuf": {"listen": ["[::]:2005", "127.0.0.1:2015"]}, "fold_empty_components": false}"#,
        )
        .unwrap();
        let [line, pickle, protobuf] =
            ["line", "pickle", "protobuf"].map(|name| config.tcp.get(name).unwrap());
        assert_eq!((line.message_bytes_max, line.compression), (32 << 10, Compression::Snappy));
        assert!(line.listen.is_off());
        assert_eq!(line.idle_timeout, Duration::from_secs(120));
        assert_eq!((&pickle.listen, pickle.message_bytes_max), (&"127.0.0.1:2004".into(), 16 << 20));
        assert_eq!(protobuf.listen.iter().collect::<Vec<_>>(), ["[::]:2005", "127.0.0.1:2015"]);
        assert!(pickle.tls.is_on() && !line.tls.is_on());
        for wrong in [
            r#"{"lines": {}}"#,
            r#"{"line": {"idle_timeout": "2"}}"#,
            r#"{"line": {"frame_bytes_max": "1MiB"}}"#,
            r#"{"line": {"compression": "gzip"}}"#,
            r#"{"pickle": {"compression": "auto"}}"#,
            r#"{"udp": {"tls": {}}}"#,
        ] {
            assert!(serde_json::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_defaults_have_no_problem() {
        assert_eq!(Config::default().problems(), Vec::<String>::new());
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let mut config = Config::default();
        let line = config.tcp.get_mut("line").unwrap();
        line.listen = "127.0.0.1:1, 2003, nowhere".into();
        line.message_bytes_max = 1;
        let pickle = config.tcp.get_mut("pickle").unwrap();
        pickle.connections_max = 0;
        pickle.tls.cert = "/nowhere/cert.pem".into();
        let protobuf = config.tcp.get_mut("protobuf").unwrap();
        protobuf.listen = "127.0.0.1:2".into();
        protobuf.message_bytes_max = 1 << 40;
        config.blacklist = "/nowhere/blacklist.conf".into();
        let problems = config.problems();
        for key in [
            "ingest.line.listen: \"2003\" is not an address",
            "ingest.line.listen: \"nowhere\" is not an address",
            "ingest.line.line_bytes_max: 1 is not between 64",
            "ingest.pickle.connections_max: 0",
            "ingest.pickle.tls.cert: /nowhere/cert.pem: cannot be read",
            "ingest.pickle.tls.cert: cert and key must be set together",
            "ingest.protobuf.frame_bytes_max: ",
            "ingest.frame_memory_bytes: ",
            "ingest.blacklist: /nowhere/blacklist.conf: ",
        ] {
            assert!(problems.iter().any(|p| p.starts_with(key)), "{key} in {problems:#?}");
        }
    }
}
