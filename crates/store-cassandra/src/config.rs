//! The settings of the Cassandra store.

use std::str::FromStr;
use std::time::Duration;

use plumbago_model::{Period, setting};
use serde::{Deserialize, Deserializer};

use crate::loose::{number, switch, texts};
pub use crate::tls::Tls;
use crate::tls::{self, TlsProblem};

/// The `[store.cassandra]` section of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Nodes to connect to first, as `host:port`. The other nodes are discovered from them.
    #[serde(deserialize_with = "texts")]
    pub contact_points: Vec<String>,
    /// The keyspace for points. Names are in `<keyspace>_metadata`.
    pub keyspace: String,
    /// The data centre whose nodes are used. If empty, the data centre of the contact points is used if the
    /// keyspaces have replicas in several data centres; otherwise none is preferred.
    pub datacenter: String,
    /// User name; empty if the cluster needs no login.
    pub username: String,
    /// Password of that user.
    pub password: String,
    /// Encryption of the connections.
    pub tls: Tls,
    /// A second cluster that holds the names; without contact points, the names are with the points.
    pub metadata: MetadataCluster,
    /// Consistency levels of reads and writes.
    pub consistency: Consistency,
    /// Replica id of this writer, 0 to 3. Daemons with different replica ids receive copies of the same
    /// traffic.
    #[serde(deserialize_with = "replica")]
    pub replica: u8,
    /// Timeout of one request.
    pub request_timeout: Period,
    /// How long a read of points may go unanswered before it is also sent to another node; 0 for never.
    pub speculative_after: Period,
    /// Timeout for opening a connection.
    pub connect_timeout: Period,
    /// Number of connections to each node.
    #[serde(deserialize_with = "connections")]
    pub connections_per_node: u32,
    /// Maximum number of requests for points in flight: of all writes together, and of each read call.
    #[serde(deserialize_with = "concurrency")]
    pub concurrency: u32,
    /// Maximum number of rows in one write request. All rows of a request are in the same partition.
    #[serde(deserialize_with = "rows_per_request")]
    pub rows_per_request: u32,
    /// Number of component columns in tables that `syncdb` creates. Existing tables keep theirs.
    #[serde(deserialize_with = "components")]
    pub components: u32,
    /// Which indexes `syncdb` creates.
    pub indexes: Indexes,
    /// Replication of keyspaces that `syncdb` creates.
    pub replication: Replication,
    /// The latest time at which the server can let rows expire.
    pub expiry_limit: ExpiryLimit,
    /// Age of a metric's `updated_on` at which it is written again.
    pub touch_after: Period,
    /// One in this many reads updates `read_on` of the metrics it reads; 0 for none.
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
    /// The keyspace for names.
    pub fn metadata_keyspace(&self) -> String {
        format!("{}_metadata", self.keyspace)
    }

    /// Whether names are in a cluster of their own.
    pub fn has_metadata_cluster(&self) -> bool {
        !self.metadata.contact_points.is_empty() && self.metadata.contact_points != self.contact_points
    }

    /// Problems that deserialising does not find, each as `key: what is wrong`.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.contact_points.is_empty() {
            found.push("store.cassandra.contact_points: name at least one node".to_owned());
        }
        if !is_keyspace(&self.keyspace) {
            found.push(format!(
                "store.cassandra.keyspace: {:?} is not a keyspace name; use up to 39 letters, digits and _",
                self.keyspace
            ));
        }
        for (key, tls) in
            [("store.cassandra.tls", &self.tls), ("store.cassandra.metadata.tls", &self.metadata.tls)]
        {
            if tls.cert.as_os_str().is_empty() != tls.key.as_os_str().is_empty() {
                found.push(format!("{key}: cert and key must be set together"));
            }
        }
        found
    }

    /// Problems of the files that the settings name, each as `key: what is wrong`. A connection needs these files
    /// only if the daemon uses this store.
    pub fn file_problems(&self) -> Vec<String> {
        let mut sections = vec![("store.cassandra.tls", &self.tls)];
        if self.has_metadata_cluster() {
            sections.push(("store.cassandra.metadata.tls", &self.metadata.tls));
        }
        let of = |(key, tls): (&str, &Tls)| -> Vec<String> {
            let problems = tls::problems(tls).into_iter();
            problems.map(|TlsProblem { setting, text }| format!("{key}.{setting}: {text}")).collect()
        };
        sections.into_iter().flat_map(of).collect()
    }
}

/// Whether a name is valid in CQL and, with `_metadata` appended, within the server's 48 characters.
fn is_keyspace(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=39).contains(&name.len()) && name.bytes().all(word) && name.as_bytes()[0].is_ascii_alphabetic()
}

/// The `[store.cassandra.metadata]` section: a second cluster, for the names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetadataCluster {
    /// Nodes to connect to first, as `host:port`; empty if the names are in the same cluster as the points.
    #[serde(deserialize_with = "texts")]
    pub contact_points: Vec<String>,
    /// The data centre whose nodes are used. If empty, the data centre of the contact points is used if the
    /// keyspaces have replicas in several data centres; otherwise none is preferred.
    pub datacenter: String,
    /// User name; empty if the cluster needs no login.
    pub username: String,
    /// Password of that user.
    pub password: String,
    /// Encryption of the connections.
    pub tls: Tls,
}

/// Consistency levels: how many replicas must confirm a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Consistency {
    /// The level for writes of points.
    pub write: Level,
    /// The level for reads of points.
    pub read: Level,
    /// The level for writes of names.
    pub metadata_write: Level,
    /// The level for reads of names.
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

/// A consistency level. Settings use CQL's names, e.g. `LOCAL_QUORUM`, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Level {
    /// `LOCAL_QUORUM` if the keyspace has three or more replicas, else `LOCAL_ONE`.
    #[serde(rename = "auto")]
    Auto,
    /// Any node, even if it only keeps a hint for the replica.
    Any,
    /// One replica.
    One,
    /// Two replicas.
    Two,
    /// Three replicas.
    Three,
    /// A majority of the replicas of all data centres together.
    Quorum,
    /// All replicas.
    All,
    /// A majority of the replicas in the local data centre.
    LocalQuorum,
    /// A majority of the replicas in each data centre.
    EachQuorum,
    /// One replica in the local data centre.
    LocalOne,
}

/// The indexes that `syncdb` creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Indexes {
    /// BigGraphite's SASI indexes.
    Sasi,
    /// No indexes: globs can only be answered from memory.
    None,
}

/// Replication of the keyspaces that `syncdb` creates.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replication {
    /// For points: `"3"` for SimpleStrategy, `"dc1:3,dc2:2"` for NetworkTopologyStrategy.
    #[serde(deserialize_with = "setting::from_text")]
    pub data: Factor,
    /// For names, in the same form.
    #[serde(deserialize_with = "setting::from_text")]
    pub metadata: Factor,
    /// Whether points go through the server's commit log. Without it, a server that is killed loses
    /// confirmed points until the spool has sent them again.
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
    /// `SimpleStrategy`, with the number of replicas.
    Simple(u32),
    /// `NetworkTopologyStrategy`: data centres with their number of replicas.
    ByDatacenter(Vec<(String, u32)>),
}

/// A text that is not a valid replication setting; holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a replication; write a number like \"3\", or data centres like \"dc1:3,dc2:2\"")]
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

/// The latest expiry time that the server's file format can represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ExpiryLimit {
    /// 2038-01-19: Cassandra up to 4.1, and 5.0 with its default settings.
    #[serde(rename = "2038")]
    Year2038,
    /// 2106-02-07: Cassandra 5.0 with `storage_compatibility_mode: NONE`.
    #[serde(rename = "2106")]
    Year2106,
}

impl ExpiryLimit {
    /// The limit in seconds since the epoch.
    pub fn seconds(self) -> i64 {
        match self {
            Self::Year2038 => 2_147_483_646,
            Self::Year2106 => 4_294_967_293,
        }
    }
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
    fn files_are_read_before_a_connection_needs_them() {
        let tls = Tls { ca: "/nowhere/ca.pem".into(), ..Tls::default() };
        let mut config = Config { tls, ..Config::default() };
        assert!(config.file_problems().is_empty(), "TLS is off");
        config.tls.enabled = true;
        config.tls.cert = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into();
        config.tls.key = "/nowhere/key.pem".into();
        config.metadata.contact_points = vec!["b:9042".to_owned()];
        config.metadata.tls.enabled = true;
        let found = config.file_problems();
        for start in [
            "store.cassandra.tls.ca: cannot use /nowhere/ca.pem: No such file",
            "store.cassandra.tls.cert: cannot use ",
            "store.cassandra.tls.key: cannot use /nowhere/key.pem: No such file",
            "store.cassandra.metadata.tls.ca: needed",
        ] {
            assert!(found.iter().any(|text| text.starts_with(start)), "{start} in {found:#?}");
        }
        assert_eq!(found.len(), 4, "{found:#?}");
    }

    #[test]
    fn refuses_wrong_settings() {
        for wrong in [
            r#"{"replica": 4}"#,
            r#"{"consistency": {"write": "MOST"}}"#,
            r#"{"replication": {"data": "0"}}"#,
            r#"{"replication": {"data": "dc1:x"}}"#,
            r#"{"rows_per_request": 0}"#,
            r#"{"rows_per_request": 1.5}"#,
            r#"{"hosts": []}"#,
        ] {
            assert!(serde_json::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
        let negative = serde_json::from_str::<Config>(r#"{"replica": -1}"#).unwrap_err();
        assert!(negative.to_string().starts_with("replica is a number from 0 to 3"), "{negative}");
        for keyspace in ["", "a b", "1a", "a\"; DROP", &"x".repeat(40)] {
            let config = Config { keyspace: keyspace.to_owned(), ..Config::default() };
            assert_eq!(config.problems().len(), 1, "{keyspace}");
        }
    }
}
