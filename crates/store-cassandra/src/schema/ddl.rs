//! The statements that create a schema. They use only options that every supported server knows.

use std::fmt::Write;

use uuid::Uuid;

use super::{CHANGES, Column, CompactionWindow, Index, IndexKind, Key, KeyspaceDef, Schema, TableDef};
use crate::config::Factor;

/// The namespace of table ids (UUIDv5 of keyspace and table name). Because the id follows from the name,
/// a table that is created through two nodes at the same time gets the same id on both.
const TABLE_IDS: Uuid = Uuid::from_u128(0x9c5b_63a4_7f1e_4b5d_8d0a_706c_756d_6261);

/// The database product that a cluster runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Apache Cassandra or a compatible product.
    Cassandra,
    /// ScyllaDB, which has no SASI indexes.
    Scylla,
}

/// The product and version of a server, as far as statements depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// The database product.
    pub engine: Engine,
    /// Major and minor release. ScyllaDB reports the Cassandra release that it is compatible with.
    pub version: (u32, u32),
}

impl Server {
    /// The server that the committed `schema.cql` is generated for.
    pub const DEFAULT: Self = Self { engine: Engine::Cassandra, version: (5, 0) };

    /// Parses the release that a server reports, e.g. `4.1.10-SNAPSHOT`. Missing numbers become 0.
    pub fn parse(release: &str, engine: Engine) -> Self {
        let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        Self { engine, version: (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) }
    }

    /// Whether the server supports SASI indexes. They may still be disabled in its settings.
    pub fn has_sasi(self) -> bool {
        self.engine == Engine::Cassandra && self.version >= (3, 4)
    }

    /// The line of `cassandra.yaml` that enables SASI indexes.
    pub fn sasi_setting(self) -> &'static str {
        if self.version >= (4, 1) { "sasi_indexes_enabled: true" } else { "enable_sasi_indexes: true" }
    }
}

/// A statement and what it creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// What it creates.
    pub makes: Makes,
    /// The CQL, without a semicolon.
    pub cql: String,
}

/// What a statement creates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Makes {
    /// A keyspace, by name.
    Keyspace(String),
    /// A table, by keyspace and name.
    Table(String, String),
    /// An index, by keyspace, table and name.
    Index(String, String, String),
}

impl Schema {
    /// All statements, in the order in which to run them. Each can be run repeatedly. The change feed comes before the
    /// other tables: tables of names without a change feed look like BigGraphite's, so a run that ends early must not
    /// leave them like that. Indexes come last, because a server may refuse them.
    pub fn statements(&self, server: Server) -> Vec<Statement> {
        let mut all: Vec<Statement> = self.keyspaces.iter().map(keyspace).collect();
        let (feed, others): (Vec<_>, Vec<_>) = self.tables.iter().partition(|def| def.name == CHANGES);
        all.extend(feed.into_iter().chain(others).map(table));
        if server.has_sasi() {
            let indexes =
                self.tables.iter().flat_map(|def| def.indexes.iter().map(move |index| (def, index)));
            all.extend(indexes.map(|(def, index)| create_index(def, index)));
        }
        all
    }

    /// All statements as the text of a file for `cqlsh`.
    pub fn text(&self, server: Server) -> String {
        let mut text =
            "-- BigGraphite's tables and Plumbago's own; `plumbago schema --cql` prints this file.\n"
                .to_owned();
        let mut indexed = "";
        for statement in self.statements(server) {
            let gap = match &statement.makes {
                Makes::Index(_, table, _) if *table == indexed => "",
                _ => "\n",
            };
            if let Makes::Index(_, table, _) = &statement.makes {
                indexed =
                    self.tables.iter().map(|def| def.name.as_str()).find(|name| name == table).unwrap_or("");
            }
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{gap}{};", statement.cql);
        }
        text
    }
}

/// The id of a table, derived from its keyspace and name.
pub fn table_id(keyspace: &str, table: &str) -> Uuid {
    Uuid::new_v5(&TABLE_IDS, format!("{keyspace}.{table}").as_bytes())
}

/// The name in double quotes, which make CQL keep its case.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn keyspace(def: &KeyspaceDef) -> Statement {
    let cql = format!(
        "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {} AND durable_writes = {}",
        quoted(&def.name),
        replication(&def.replication),
        def.durable_writes,
    );
    Statement { makes: Makes::Keyspace(def.name.clone()), cql }
}

/// Lists the data centres by name even if all have the same factor: Cassandra 3.11 refuses
/// `NetworkTopologyStrategy` with `replication_factor`.
fn replication(factor: &Factor) -> String {
    match factor {
        Factor::Simple(n) => format!("{{'class': 'SimpleStrategy', 'replication_factor': '{n}'}}"),
        Factor::ByDatacenter(datacenters) => {
            let mut text = "{'class': 'NetworkTopologyStrategy'".to_owned();
            for (name, n) in datacenters {
                let _ = write!(text, ", {}: '{n}'", text_literal(name));
            }
            text + "}"
        }
    }
}

fn table(def: &TableDef) -> Statement {
    let name = format!("{}.{}", quoted(&def.keyspace), quoted(&def.name));
    let mut cql = format!("CREATE TABLE IF NOT EXISTS {name} (\n");
    for column in &def.columns {
        let _ = writeln!(cql, "    {} {},", column.name, column.cql_type);
    }
    let _ = write!(cql, "    PRIMARY KEY ({})\n) WITH {}", primary_key(def), options(def).join("\n    AND "));
    Statement { makes: Makes::Table(def.keyspace.clone(), def.name.clone()), cql }
}

fn primary_key(def: &TableDef) -> String {
    let names =
        |columns: Vec<&Column>| columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut key = format!("({})", names(def.partition_key().collect()));
    let clustering = names(def.clustering_key().collect());
    if !clustering.is_empty() {
        key.push_str(", ");
        key.push_str(&clustering);
    }
    key
}

fn options(def: &TableDef) -> Vec<String> {
    let mut all = Vec::new();
    let order: Vec<String> = def
        .clustering_key()
        .map(|c| format!("{} {}", c.name, if c.key == Key::Descending { "DESC" } else { "ASC" }))
        .collect();
    if !order.is_empty() {
        all.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
    }
    all.push(format!("id = '{}'", table_id(&def.keyspace, &def.name)));
    let options = &def.options;
    if let Some(comment) = &options.comment {
        all.push(format!("comment = {}", text_literal(comment)));
    }
    if let Some(window) = options.window {
        all.push(format!("compaction = {}", compaction(window)));
    }
    if let Some(compression) = options.compression {
        all.push(compression.option());
    }
    if let Some(ttl) = options.ttl {
        all.push(format!("default_time_to_live = {ttl}"));
    }
    if let Some(seconds) = options.gc_grace_seconds {
        all.push(format!("gc_grace_seconds = {seconds}"));
    }
    if let Some(ms) = options.flush_period_ms {
        all.push(format!("memtable_flush_period_in_ms = {ms}"));
    }
    all
}

fn compaction(window: CompactionWindow) -> String {
    let (unit, size) = match window {
        CompactionWindow::Hours(n) => ("HOURS", n),
        CompactionWindow::Days(n) => ("DAYS", n),
    };
    format!(
        "{{'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': '{size}', \
         'compaction_window_unit': '{unit}', 'timestamp_resolution': 'MICROSECONDS'}}"
    )
}

fn create_index(def: &TableDef, index: &Index) -> Statement {
    let options = match index.kind {
        IndexKind::Text => {
            "{'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer', \
             'case_sensitive': 'true'}"
        }
        IndexKind::Sparse => "{'mode': 'SPARSE'}",
    };
    let cql = format!(
        "CREATE CUSTOM INDEX IF NOT EXISTS {} ON {}.{} ({}) USING \
         'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {options}",
        index.name,
        quoted(&def.keyspace),
        quoted(&def.name),
        index.column,
    );
    Statement { makes: Makes::Index(def.keyspace.clone(), def.name.clone(), index.name.clone()), cql }
}
