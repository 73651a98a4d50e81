//! The settings of the Cassandra store.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use plumbago_model::{Period, setting};
use serde::{Deserialize, Deserializer, de};

/// The `[store.cassandra]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Nodes to ask first, as `host:port`; the others are learnt from them.
    #[serde(deserialize_with = "texts")]
    pub contact_points: Vec<String>,
    /// The keyspace of the points; names are in `<keyspace>_metadata`.
    pub keyspace: String,
    /// The data centre whose nodes are asked; empty for no preference.
    pub datacenter: String,
    /// User name; empty when the cluster asks for none.
    pub username: String,
    /// Its password.
    pub password: String,
    /// Encryption.
    pub tls: Tls,
    /// The cluster of the names, when it is another one.
    pub metadata: MetadataCluster,
    /// How many replicas confirm what.
    pub consistency: Consistency,
    /// Which of four copies of the same traffic this writer takes, 0 to 3.
    #[serde(deserialize_with = "replica")]
    pub replica: u8,
    /// How long one request may take.
    pub request_timeout: Period,
    /// After how long a read of points that has no answer yet is asked of another node too; 0 for never.
    pub speculative_after: Period,
    /// How long the start of a connection may take.
    pub connect_timeout: Period,
    /// Connections to each node.
    #[serde(deserialize_with = "connections")]
    pub connections_per_node: u32,
    /// Requests for points in flight.
    #[serde(deserialize_with = "concurrency")]
    pub concurrency: u32,
    /// Rows in one request at most; they are all of one partition.
    #[serde(deserialize_with = "rows_per_request")]
    pub rows_per_request: u32,
    /// Component columns of tables that `syncdb` makes; a table that is there is taken as it is.
    #[serde(deserialize_with = "components")]
    pub components: u32,
    /// Which indexes `syncdb` makes.
    pub indexes: Indexes,
    /// Replication of keyspaces that `syncdb` makes.
    pub replication: Replication,
    /// The latest instant at which the server lets rows expire.
    pub expiry_limit: ExpiryLimit,
    /// How old `updated_on` of a metric may become before it is written again.
    pub touch_after: Period,
    /// One in so many reads of a metric is noted in `read_on`; 0 for none.
    #[serde(deserialize_with = "sampling")]
    pub read_on_sampling: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            contact_points: vec!["127.0.0.1:9042".to_owned()],
            keyspace: "biggraphite".to_owned(),
            datacenter: String::new(),
            username: String::new(),
            password: String::new(),
            tls: Tls::default(),
            metadata: MetadataCluster::default(),
            consistency: Consistency::default(),
            replica: 0,
            request_timeout: Period::seconds(10),
            speculative_after: Period(Duration::from_millis(500)),
            connect_timeout: Period::seconds(5),
            connections_per_node: 2,
            concurrency: 128,
            rows_per_request: 500,
            components: 64,
            indexes: Indexes::Sasi,
            replication: Replication::default(),
            expiry_limit: ExpiryLimit::Year2038,
            touch_after: Period::seconds(86_400),
            read_on_sampling: 10,
        }
    }
}

impl Config {
    /// The keyspace of the names.
    pub fn metadata_keyspace(&self) -> String {
        format!("{}_metadata", self.keyspace)
    }

    /// True when names are kept by a cluster of their own.
    pub fn has_metadata_cluster(&self) -> bool {
        !self.metadata.contact_points.is_empty() && self.metadata.contact_points != self.contact_points
    }

    /// What no single key can tell, each as `key: what is wrong`.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.contact_points.is_empty() {
            found.push("store.cassandra.contact_points: name at least one node".to_owned());
        }
        if !is_keyspace(&self.keyspace) {
            found.push(format!(
                "store.cassandra.keyspace: {:?} is no keyspace name; use up to 39 letters, digits and _",
                self.keyspace
            ));
        }
        for (key, tls) in
            [("store.cassandra.tls", &self.tls), ("store.cassandra.metadata.tls", &self.metadata.tls)]
        {
            if tls.cert.as_os_str().is_empty() != tls.key.as_os_str().is_empty() {
                found.push(format!("{key}: cert and key go together"));
            }
        }
        found
    }
}

/// A name that needs no quotes and leaves room for `_metadata` in the server's 48 characters.
fn is_keyspace(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=39).contains(&name.len()) && name.bytes().all(word) && name.as_bytes()[0].is_ascii_alphabetic()
}

/// Encryption of the connections to one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// Connect with TLS.
    #[serde(deserialize_with = "switch")]
    pub enabled: bool,
    /// PEM file of the authorities that sign the nodes' certificates.
    pub ca: PathBuf,
    /// PEM file of this client's certificate and its chain; empty for none.
    pub cert: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
}

/// The `[store.cassandra.metadata]` section: a second cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetadataCluster {
    /// Its nodes; empty when the names are with the points.
    #[serde(deserialize_with = "texts")]
    pub contact_points: Vec<String>,
    /// The data centre whose nodes are asked; empty for no preference.
    pub datacenter: String,
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Encryption.
    pub tls: Tls,
}

/// How many replicas confirm what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Consistency {
    /// Writes of points; `auto` is LOCAL_QUORUM from three replicas on, else LOCAL_ONE.
    pub write: Level,
    /// Reads of points.
    pub read: Level,
    /// Writes of names.
    pub metadata_write: Level,
    /// Reads of names.
    pub metadata_read: Level,
}

impl Default for Consistency {
    fn default() -> Self {
        Self {
            write: Level::Auto,
            read: Level::LocalOne,
            metadata_write: Level::LocalQuorum,
            metadata_read: Level::LocalOne,
        }
    }
}

/// A consistency level, by the name that CQL gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Level {
    /// By the replication factor.
    #[serde(rename = "auto")]
    Auto,
    /// Any node, also by a hint.
    Any,
    /// One replica.
    One,
    /// Two replicas.
    Two,
    /// Three replicas.
    Three,
    /// Most replicas of all data centres.
    Quorum,
    /// All replicas.
    All,
    /// Most replicas of the local data centre.
    LocalQuorum,
    /// Most replicas of each data centre.
    EachQuorum,
    /// One replica of the local data centre.
    LocalOne,
}

/// The indexes that `syncdb` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Indexes {
    /// BigGraphite's SASI indexes.
    Sasi,
    /// None: globs are answered from memory only.
    None,
}

/// Replication of the keyspaces that `syncdb` makes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replication {
    /// Of the points: `"3"` for SimpleStrategy, `"dc1:3,dc2:2"` for NetworkTopologyStrategy.
    #[serde(deserialize_with = "setting::from_text")]
    pub data: Factor,
    /// Of the names.
    #[serde(deserialize_with = "setting::from_text")]
    pub metadata: Factor,
    /// Whether points go through the server's commit log. Without it a killed server loses what it
    /// confirmed, until the spool sends it again.
    #[serde(deserialize_with = "switch")]
    pub durable_writes: bool,
}

impl Default for Replication {
    fn default() -> Self {
        Self { data: Factor::Simple(1), metadata: Factor::Simple(1), durable_writes: true }
    }
}

/// A replication strategy with its factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Factor {
    /// SimpleStrategy.
    Simple(u32),
    /// NetworkTopologyStrategy, by data centre.
    ByDatacenter(Vec<(String, u32)>),
}

/// Not a replication.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no replication; write a number like \"3\", or data centres like \"dc1:3,dc2:2\"")]
pub struct FactorError(String);

impl FromStr for Factor {
    type Err = FactorError;

    fn from_str(text: &str) -> Result<Self, FactorError> {
        let error = || FactorError(text.to_owned());
        let factor =
            |n: &str| n.trim().parse::<u32>().ok().filter(|n| (1..=100).contains(n)).ok_or_else(error);
        if !text.contains(':') {
            return Ok(Self::Simple(factor(text)?));
        }
        let mut datacenters = Vec::new();
        for part in text.split(',') {
            let (name, n) = part.rsplit_once(':').ok_or_else(error)?;
            let name = name.trim();
            if name.is_empty() || name.contains('\'') {
                return Err(error());
            }
            datacenters.push((name.to_owned(), factor(n)?));
        }
        Ok(Self::ByDatacenter(datacenters))
    }
}

/// The latest expiry that the server's files can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ExpiryLimit {
    /// 2038-01-19: up to 4.1, and 5.0 as it is shipped.
    #[serde(rename = "2038")]
    Year2038,
    /// 2106-02-07: 5.0 with `storage_compatibility_mode: NONE`.
    #[serde(rename = "2106")]
    Year2106,
}

impl ExpiryLimit {
    /// Seconds since the epoch.
    pub fn seconds(self) -> i64 {
        match self {
            Self::Year2038 => 2_147_483_646,
            Self::Year2106 => 4_294_967_293,
        }
    }
}

/// Settings come from files as what they are and from the environment as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Loose {
    Number(u32),
    Switch(bool),
    Texts(Vec<String>),
    Text(String),
}

fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    name: &str,
    min: u32,
    max: u32,
) -> Result<u32, D::Error> {
    let number = match Loose::deserialize(deserializer)? {
        Loose::Number(number) => Some(number),
        Loose::Text(text) => text.parse().ok(),
        _ => None,
    };
    number
        .filter(|n| (min..=max).contains(n))
        .ok_or_else(|| de::Error::custom(format!("{name} is a number from {min} to {max}")))
}

fn replica<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    number(deserializer, "replica", 0, 3).map(|n| n as u8)
}

fn connections<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    number(deserializer, "connections_per_node", 1, 64)
}

fn concurrency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    number(deserializer, "concurrency", 1, 10_000)
}

fn rows_per_request<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    number(deserializer, "rows_per_request", 1, 2000)
}

fn components<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    number(deserializer, "components", 2, 256)
}

fn sampling<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    number(deserializer, "read_on_sampling", 0, u32::MAX)
}

fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = match Loose::deserialize(deserializer)? {
        Loose::Switch(value) => Some(value),
        Loose::Text(text) => text.parse().ok(),
        _ => None,
    };
    value.ok_or_else(|| de::Error::custom("write true or false"))
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    match Loose::deserialize(deserializer)? {
        Loose::Texts(texts) => Ok(texts),
        Loose::Text(text) => {
            Ok(text.split(',').map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect())
        }
        _ => Err(de::Error::custom("write a list of texts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let text = r#"{"contact_points": ["a:1", "b:2"], "keyspace": "bg", "replica": 3,
            "consistency": {"write": "LOCAL_QUORUM", "read": "ONE"}, "request_timeout": "3s",
            "replication": {"data": "dc1:3,dc2:2", "durable_writes": false}, "expiry_limit": "2106",
            "metadata": {"contact_points": "c:1, d:2", "username": "u"}, "tls": {"enabled": true}}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        assert_eq!(config.contact_points, ["a:1", "b:2"]);
        assert_eq!(config.metadata_keyspace(), "bg_metadata");
        assert!(config.has_metadata_cluster());
        assert_eq!(config.metadata.contact_points, ["c:1", "d:2"]);
        assert_eq!((config.consistency.write, config.consistency.read), (Level::LocalQuorum, Level::One));
        let dcs = vec![("dc1".to_owned(), 3), ("dc2".to_owned(), 2)];
        assert_eq!(config.replication.data, Factor::ByDatacenter(dcs));
        assert!(config.problems().is_empty());
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), Config::default());
        assert!(Config::default().problems().is_empty());
    }

    #[test]
    fn refuses_wrong_settings() {
        for wrong in [
            r#"{"replica": 4}"#,
            r#"{"consistency": {"write": "MOST"}}"#,
            r#"{"replication": {"data": "0"}}"#,
            r#"{"replication": {"data": "dc1:x"}}"#,
            r#"{"rows_per_request": 0}"#,
            r#"{"hosts": []}"#,
        ] {
            assert!(serde_json::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
        for keyspace in ["", "a b", "1a", "a\"; DROP", &"x".repeat(40)] {
            let config = Config { keyspace: keyspace.to_owned(), ..Config::default() };
            assert_eq!(config.problems().len(), 1, "{keyspace}");
        }
    }
}
