//! The schema as plain data, derived from the settings and the storage rules. [`ddl`] turns it into
//! statements, [`diff`] compares it with the schema of a server.

mod compression;
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

pub use compression::Compression;
pub use diff::{Difference, Severity};
pub use live::{LiveColumn, LiveIndex, LiveKeyspace, LiveSchema, LiveTable};
pub use names::{DIRECTORIES, END, METADATA, METRICS};
pub use ours::{CHANGES, CHANGES_BUCKET_SECONDS, CHANGES_TTL_SECONDS, LEASES, TAGS, WRITERS};

/// The longest TTL that Cassandra accepts (20 years), in seconds.
const TTL_MAX: u64 = 630_720_000;
/// How long before the server's latest possible expiry a row must expire, in seconds. The margin covers
/// a server clock that is ahead of ours and the time a request takes.
const TTL_MARGIN: i64 = 86_400;

/// Both keyspaces with all their tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The keyspace for points and the keyspace for names, in this order.
    pub keyspaces: [KeyspaceDef; 2],
    /// The tables of both keyspaces, those for names first.
    pub tables: Vec<TableDef>,
}

/// The definition of a keyspace.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyspaceDef {
    /// The name, unquoted.
    pub name: String,
    /// The replication strategy and factors.
    pub replication: Factor,
    /// Whether writes go through the commit log.
    pub durable_writes: bool,
}

/// The definition of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDef {
    /// The keyspace that holds the table.
    pub keyspace: String,
    /// The name, unquoted and without the keyspace.
    pub name: String,
    /// What the table is for.
    pub purpose: Purpose,
    /// The columns: the partition key first, then the clustering columns, then the others.
    pub columns: Vec<Column>,
    /// The options after `WITH`.
    pub options: Options,
    /// The SASI indexes.
    pub indexes: Vec<Index>,
}

/// What a table is for. This decides how severe it is if the table is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Holds the points of a stage.
    Points(Table),
    /// Holds names; a table that BigGraphite has too.
    Names,
    /// Belongs to an optional feature that BigGraphite does not have.
    Extra,
}

/// The definition of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// The CQL type, as `system_schema` spells it.
    pub cql_type: &'static str,
    /// The role of the column in the primary key.
    pub key: Key,
}

/// The role of a column in the primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Part of the partition key.
    Partition,
    /// A clustering column in ascending order.
    Ascending,
    /// A clustering column in descending order.
    Descending,
    /// Not in the key.
    None,
}

/// Options of a table. `None` leaves the server's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The comment of the table.
    pub comment: Option<String>,
    /// The default TTL of rows, in seconds.
    pub ttl: Option<u64>,
    /// The window of the time-window compaction strategy.
    pub window: Option<CompactionWindow>,
    /// How long tombstones are kept, in seconds.
    pub gc_grace_seconds: Option<u32>,
    /// The longest time between two flushes of the memtable, in milliseconds.
    pub flush_period_ms: Option<u32>,
    /// How files are compressed.
    pub compression: Option<Compression>,
}

/// A window of the time-window compaction strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionWindow {
    /// A number of hours.
    Hours(u64),
    /// A number of days.
    Days(u64),
}

impl CompactionWindow {
    /// The length of the window in seconds.
    pub fn seconds(self) -> u64 {
        match self {
            Self::Hours(n) => n * 3600,
            Self::Days(n) => n * 86_400,
        }
    }
}

/// The definition of a SASI index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The name. BigGraphite's statement gives none, so this is the name that the server generates for it.
    pub name: String,
    /// The indexed column.
    pub column: String,
    /// Which of BigGraphite's two sets of options the index has.
    pub kind: IndexKind,
}

/// The two kinds of SASI index that BigGraphite uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// Finds whole texts and prefixes, case-sensitively.
    Text,
    /// For columns where few rows share a value.
    Sparse,
}

impl Schema {
    /// The schema with these tables for points. `now` (seconds since the epoch) limits their TTLs.
    pub fn new(config: &Config, tables: &BTreeSet<Table>, now: i64) -> Self {
        Self::with_components(config, config.components, tables, now)
    }

    /// The same schema, but with the number of component columns that the server's tables have.
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

    /// The table with this keyspace and name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&TableDef> {
        self.tables.iter().find(|table| table.keyspace == keyspace && table.name == name)
    }
}

/// The tables for points that metrics with these retentions need.
pub fn tables_of<'a>(retentions: impl IntoIterator<Item = &'a Retention>) -> BTreeSet<Table> {
    let mut tables = BTreeSet::new();
    for retention in retentions {
        for (index, stage) in retention.stages().iter().enumerate() {
            tables.insert(Table { stage: *stage, coarse: index > 0 });
        }
    }
    tables
}

/// The longest TTL that a row written at `now` (seconds since the epoch) may have, in seconds.
pub fn ttl_limit(config: &Config, now: i64) -> u64 {
    let until = config.expiry_limit.seconds().saturating_sub(TTL_MARGIN).saturating_sub(now).max(1);
    TTL_MAX.min(until as u64)
}

/// The compaction window of a table for points.
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

    /// `keyspace.name`, for messages.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }
}

fn column(name: impl Into<String>, cql_type: &'static str, key: Key) -> Column {
    Column { name: name.into(), cql_type, key }
}

#[cfg(test)]
mod tests;
