//! The schema of a server, as its `system_schema` tables report it.

use std::collections::{BTreeMap, HashMap};

use super::ddl::Server;
use super::{CompactionWindow, Key, METRICS};

/// What a server has in the keyspaces for points and names.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveSchema {
    /// The product and version of the server.
    pub server: Server,
    /// Keyspaces by name.
    pub keyspaces: BTreeMap<String, LiveKeyspace>,
    /// Tables by (keyspace, name).
    pub tables: BTreeMap<(String, String), LiveTable>,
    /// The indexes of all tables.
    pub indexes: Vec<LiveIndex>,
}

/// A keyspace of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveKeyspace {
    /// The replication options, as the server reports them: `class` and the factors.
    pub replication: BTreeMap<String, String>,
    /// Whether writes go through the commit log.
    pub durable_writes: bool,
}

impl LiveKeyspace {
    /// The number of replicas in a data centre. If the keyspace does not list that data centre, it is the
    /// smallest factor of all data centres.
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

/// A table of the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveTable {
    /// The columns, in no particular order.
    pub columns: Vec<LiveColumn>,
    /// The table comment.
    pub comment: String,
    /// The default TTL of rows in seconds; 0 for none.
    pub ttl: u64,
    /// How long tombstones are kept, in seconds.
    pub gc_grace_seconds: u32,
    /// The longest time between two flushes of the memtable in milliseconds; 0 if only a full memtable
    /// is flushed.
    pub flush_period_ms: u32,
    /// The compaction options, including `class`.
    pub compaction: HashMap<String, String>,
    /// The compression options, including `class`; empty without compression.
    pub compression: HashMap<String, String>,
    /// The table flags, e.g. `compound`.
    pub flags: Vec<String>,
}

impl LiveTable {
    /// The compaction window; `None` if its size or unit is not one that we use.
    pub fn window(&self) -> Option<CompactionWindow> {
        let size = self.compaction.get("compaction_window_size").map_or(Some(1), |n| n.parse().ok())?;
        match self.compaction.get("compaction_window_unit").map_or("DAYS", String::as_str) {
            "HOURS" => Some(CompactionWindow::Hours(size)),
            "DAYS" => Some(CompactionWindow::Days(size)),
            _ => None,
        }
    }
}

/// A column of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveColumn {
    /// The name of the column.
    pub name: String,
    /// The CQL type.
    pub cql_type: String,
    /// The role of the column in the primary key.
    pub key: Key,
    /// The position within the partition key or the clustering columns, from 0.
    pub position: i32,
}

/// An index of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveIndex {
    /// The keyspace of the indexed table.
    pub keyspace: String,
    /// The indexed table.
    pub table: String,
    /// The Java class without its package. For an index that is not custom, its kind.
    pub class: String,
    /// What is indexed: a column, or an expression such as `keys(config)`.
    pub target: String,
}

impl LiveSchema {
    /// The table with this keyspace and name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&LiveTable> {
        self.tables.get(&(keyspace.to_owned(), name.to_owned()))
    }

    /// How many component columns the table of metrics has; `None` if the table does not exist.
    pub fn components(&self, metadata_keyspace: &str) -> Option<u32> {
        let table = self.table(metadata_keyspace, METRICS)?;
        let has = |n: &u32| table.columns.iter().any(|column| column.name == format!("component_{n}"));
        Some((0..).take_while(has).count() as u32)
    }

    /// The resolution of the coarsest table for points in a keyspace, in seconds; 0 if it has only raw ones.
    pub fn longest_window(&self, keyspace: &str) -> u32 {
        let seconds = |name: &str| {
            let stage = name.strip_prefix("datapoints_")?.strip_suffix("s_aggr")?;
            stage.split_once("p_")?.1.parse().ok()
        };
        let names = self.tables.keys().filter(|(of, _)| of == keyspace);
        names.filter_map(|(_, name)| seconds(name)).max().unwrap_or(0)
    }

    /// Whether the column has a SASI index.
    pub fn has_sasi(&self, keyspace: &str, table: &str, column: &str) -> bool {
        self.of(keyspace, table).any(|index| index.class == "SASIIndex" && index.target == column)
    }

    /// The class of an index on the table that is not SASI, e.g. Lucene's.
    pub fn other_index(&self, keyspace: &str, table: &str) -> Option<&str> {
        self.of(keyspace, table).find(|index| index.class != "SASIIndex").map(|index| index.class.as_str())
    }

    fn of(&self, keyspace: &str, table: &str) -> impl Iterator<Item = &LiveIndex> {
        self.indexes.iter().filter(move |index| index.keyspace == keyspace && index.table == table)
    }
}
