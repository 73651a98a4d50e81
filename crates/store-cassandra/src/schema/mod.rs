//! What the tables are: pure descriptions, made from the settings and the storage rules, and turned
//! into DDL by [`ddl`] or compared with a server by [`diff`].

pub mod ddl;
pub mod diff;
mod live;
mod names;
mod ours;
mod points;

use std::collections::BTreeSet;

use plumbago_model::Retention;

use crate::config::{Config, Factor, Indexes};
use crate::layout::Table;

pub use diff::{Difference, Severity};
pub use live::{LiveColumn, LiveIndex, LiveKeyspace, LiveSchema, LiveTable};
pub use names::{DIRECTORIES, END, METADATA, METRICS};
pub use ours::{CHANGES, CHANGES_BUCKET_SECONDS, CHANGES_TTL_SECONDS, LEASES, TAGS, WRITERS};

/// The longest TTL that any server takes, in seconds.
const TTL_MAX: u64 = 630_720_000;
/// A row expires so long before the server's limit at the latest: its clock may be ahead of ours, and a
/// request takes its time. In seconds.
const TTL_MARGIN: i64 = 86_400;

/// Both keyspaces with all their tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The keyspace of the points and that of the names.
    pub keyspaces: [KeyspaceDef; 2],
    /// The tables, names first.
    pub tables: Vec<TableDef>,
}

/// A keyspace.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyspaceDef {
    /// Its name.
    pub name: String,
    /// Where copies go.
    pub replication: Factor,
    /// Whether writes go through the commit log.
    pub durable_writes: bool,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDef {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub purpose: Purpose,
    /// Its columns: partition key, clustering key, others.
    pub columns: Vec<Column>,
    /// Its options.
    pub options: Options,
    /// Its indexes.
    pub indexes: Vec<Index>,
}

/// What a table is for, which decides how much its absence matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Points of a stage.
    Points(Table),
    /// Names, in BigGraphite's tables.
    Names,
    /// A feature of ours that can be done without.
    Extra,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as `system_schema` spells it.
    pub cql_type: &'static str,
    /// Its part in the key.
    pub key: Key,
}

/// The part of a column in the primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// In the partition key.
    Partition,
    /// A clustering column in ascending order.
    Ascending,
    /// A clustering column in descending order.
    Descending,
    /// Not in the key.
    None,
}

/// Options of a table; what is `None` stays with the server's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The comment.
    pub comment: Option<String>,
    /// TTL of its rows in seconds.
    pub ttl: Option<u64>,
    /// Window of the time-window compaction.
    pub window: Option<CompactionWindow>,
    /// How long tombstones are kept.
    pub gc_grace_seconds: Option<u32>,
    /// How often memtables are flushed at least.
    pub flush_period_ms: Option<u32>,
}

/// A window of the time-window compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionWindow {
    /// So many hours.
    Hours(u64),
    /// So many days.
    Days(u64),
}

impl CompactionWindow {
    /// Its length in seconds.
    pub fn seconds(self) -> u64 {
        match self {
            Self::Hours(n) => n * 3600,
            Self::Days(n) => n * 86_400,
        }
    }
}

/// A SASI index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Its name: what the server makes of BigGraphite's statement without one.
    pub name: String,
    /// The column.
    pub column: String,
    /// Its options.
    pub kind: IndexKind,
}

/// The two kinds of SASI index that BigGraphite uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// Whole texts and their beginnings, by case.
    Text,
    /// Values of which each has few rows.
    Sparse,
}

impl Schema {
    /// The schema for some tables of points. `now` (seconds) decides what the longest TTL is.
    pub fn new(config: &Config, tables: &BTreeSet<Table>, now: i64) -> Self {
        Self::with_components(config, config.components, tables, now)
    }

    /// The same for another number of component columns, as a server has them.
    pub fn with_components(config: &Config, components: u32, tables: &BTreeSet<Table>, now: i64) -> Self {
        let (data, metadata) = (config.keyspace.clone(), config.metadata_keyspace());
        let sasi = config.indexes == Indexes::Sasi;
        let mut all = names::tables(&metadata, components, sasi);
        all.extend(ours::tables(&metadata));
        let limit = ttl_limit(config, now);
        all.extend(tables.iter().map(|table| points::table(&data, *table, limit)));
        let replication = &config.replication;
        Self {
            keyspaces: [
                KeyspaceDef {
                    name: data,
                    replication: replication.data.clone(),
                    durable_writes: replication.durable_writes,
                },
                KeyspaceDef {
                    name: metadata,
                    replication: replication.metadata.clone(),
                    durable_writes: true,
                },
            ],
            tables: all,
        }
    }

    /// The table of this name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&TableDef> {
        self.tables.iter().find(|table| table.keyspace == keyspace && table.name == name)
    }
}

/// The tables that retentions need.
pub fn tables_of<'a>(retentions: impl IntoIterator<Item = &'a Retention>) -> BTreeSet<Table> {
    let mut tables = BTreeSet::new();
    for retention in retentions {
        for (index, stage) in retention.stages().iter().enumerate() {
            tables.insert(Table { stage: *stage, coarse: index > 0 });
        }
    }
    tables
}

/// The longest TTL that a row may carry now.
pub fn ttl_limit(config: &Config, now: i64) -> u64 {
    let until = config.expiry_limit.seconds().saturating_sub(TTL_MARGIN).saturating_sub(now).max(1);
    TTL_MAX.min(until as u64)
}

/// The compaction window of a table of points.
pub fn window_of(table: Table) -> CompactionWindow {
    points::window(table)
}

impl TableDef {
    /// The columns of the partition key.
    pub fn partition_key(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.key == Key::Partition)
    }

    /// The clustering columns.
    pub fn clustering_key(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| matches!(column.key, Key::Ascending | Key::Descending))
    }

    /// `keyspace.name`, for people.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }
}

fn column(name: impl Into<String>, cql_type: &'static str, key: Key) -> Column {
    Column { name: name.into(), cql_type, key }
}

#[cfg(test)]
mod tests;
