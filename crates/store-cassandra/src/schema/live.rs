//! The schema that a server reports, from `system_schema`.

use std::collections::{BTreeMap, HashMap};

use super::ddl::Server;
use super::{CompactionWindow, Key, METRICS};

/// What a server has in our keyspaces.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveSchema {
    /// What the server is.
    pub server: Server,
    /// Keyspaces by name.
    pub keyspaces: BTreeMap<String, LiveKeyspace>,
    /// Tables by keyspace and name.
    pub tables: BTreeMap<(String, String), LiveTable>,
    /// All indexes.
    pub indexes: Vec<LiveIndex>,
}

/// A keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveKeyspace {
    /// Its replication, as the server shows it.
    pub replication: BTreeMap<String, String>,
    /// Whether writes go through the commit log.
    pub durable_writes: bool,
}

impl LiveKeyspace {
    /// Replicas in a data centre; the fewest of any when none is named.
    pub fn replicas(&self, datacenter: &str) -> u32 {
        let number = |text: &String| text.split('/').next().and_then(|n| n.parse::<u32>().ok());
        if let Some(simple) = self.replication.get("replication_factor").and_then(number) {
            return simple;
        }
        if let Some(local) = self.replication.get(datacenter).and_then(number) {
            return local;
        }
        let factors =
            self.replication.iter().filter(|(key, _)| *key != "class").filter_map(|(_, n)| number(n));
        factors.min().unwrap_or(1)
    }
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveTable {
    /// Its columns.
    pub columns: Vec<LiveColumn>,
    /// Its comment.
    pub comment: String,
    /// Its TTL, 0 for none.
    pub ttl: u64,
    /// How long tombstones are kept.
    pub gc_grace_seconds: u32,
    /// How often memtables are flushed, 0 for only when they are full.
    pub flush_period_ms: u32,
    /// Its compaction.
    pub compaction: HashMap<String, String>,
    /// `compound` and others.
    pub flags: Vec<String>,
}

impl LiveTable {
    /// The window of its compaction.
    pub fn window(&self) -> Option<CompactionWindow> {
        let size = self.compaction.get("compaction_window_size").map_or(Some(1), |n| n.parse().ok())?;
        match self.compaction.get("compaction_window_unit").map_or("DAYS", String::as_str) {
            "HOURS" => Some(CompactionWindow::Hours(size)),
            "DAYS" => Some(CompactionWindow::Days(size)),
            _ => None,
        }
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub cql_type: String,
    /// Its part in the key.
    pub key: Key,
    /// Its place in that part of the key.
    pub position: i32,
}

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveIndex {
    /// Its keyspace.
    pub keyspace: String,
    /// Its table.
    pub table: String,
    /// Its class, without the package; the kind where it is no custom index.
    pub class: String,
    /// The column, or what else it is on.
    pub target: String,
}

impl LiveSchema {
    /// A table.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&LiveTable> {
        self.tables.get(&(keyspace.to_owned(), name.to_owned()))
    }

    /// How many component columns the metrics have; `None` without that table.
    pub fn components(&self, metadata_keyspace: &str) -> Option<u32> {
        let table = self.table(metadata_keyspace, METRICS)?;
        let has = |n: &u32| table.columns.iter().any(|column| column.name == format!("component_{n}"));
        Some((0..).take_while(has).count() as u32)
    }

    /// True when the column has a SASI index.
    pub fn has_sasi(&self, keyspace: &str, table: &str, column: &str) -> bool {
        self.of(keyspace, table).any(|index| index.class == "SASIIndex" && index.target == column)
    }

    /// The class of an index that is not SASI, e.g. Lucene's.
    pub fn other_index(&self, keyspace: &str, table: &str) -> Option<&str> {
        self.of(keyspace, table).find(|index| index.class != "SASIIndex").map(|index| index.class.as_str())
    }

    fn of(&self, keyspace: &str, table: &str) -> impl Iterator<Item = &LiveIndex> {
        self.indexes.iter().filter(move |index| index.keyspace == keyspace && index.table == table)
    }
}
