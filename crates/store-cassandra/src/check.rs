//! Checks the schema of a server. All differences are reported; tables with a fatal one are not used.

use std::collections::{BTreeSet, HashMap};
use std::sync::PoisonError;

use plumbago_store::{KeyspaceState, StoreError};

use crate::driver::{Session, Values};
use crate::error;
pub use crate::features::Features;
use crate::layout::Table;
use crate::schema::ddl::{Engine, Server};
use crate::schema::{
    self, CHANGES, DIRECTORIES, Difference, Key, LEASES, LiveColumn, LiveIndex, LiveKeyspace, LiveSchema,
    LiveTable, METRICS, Purpose, Schema, Severity, TAGS, WRITERS,
};
use crate::session::Clusters;
use crate::store::CassandraStore;

/// Part of the comment of our change feed table if BigGraphite's tables existed before it.
pub(crate) const BESIDE_BIGGRAPHITE: &str = "beside tables of BigGraphite";

/// The result of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The product and version of the server that holds the points.
    pub server: Server,
    /// Number of component columns in the tables for names.
    pub components: u32,
    /// Whether points go through the server's commit log. Without it, a server that is killed loses rows
    /// that it had confirmed.
    pub durable_writes: bool,
    /// Number of replicas of each point in the local data centre.
    pub replicas: u32,
    /// When the server created the table for names, in microseconds since the epoch. `None` without such a table.
    pub names_created_us: Option<i64>,
    /// All differences, the worst first.
    pub differences: Vec<Difference>,
    /// Optional features that the server allows.
    pub features: Features,
    /// Whether BigGraphite's tables existed before ours.
    pub made_by_biggraphite: bool,
    /// The server's clock minus ours, in milliseconds.
    pub clock_difference_ms: i64,
}

impl Report {
    /// The differences that make a table unusable.
    pub fn fatal(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| difference.severity == Severity::Fatal)
    }
}

impl CassandraStore {
    /// Compares the server's schema with the one that these tables for points need. From then on exactly the
    /// tables with fatal differences are refused, and the number of components is that of the server.
    ///
    /// # Errors
    /// The error of the request, if the server's schema or clock cannot be read.
    pub async fn check(&self, tables: &BTreeSet<Table>) -> Result<Report, StoreError> {
        let live = self.live_schema().await?;
        refresh(&*self.clusters.points.session().await?).await;
        let metadata = self.config.metadata_keyspace();
        let components = live.components(&metadata).filter(|n| *n > 0).unwrap_or(self.config.components);
        let wanted = Schema::with_components(&self.config, components, tables, self.clock.now());
        let mut differences = schema::diff::diff(&wanted, &live);
        differences.sort_by_key(|difference| std::cmp::Reverse(difference.severity));
        self.names.set_components(components);
        self.names.set_longest_window(live.longest_window(&self.config.keyspace));
        self.tables.set_unfit(unfit(&wanted, &differences));
        let keyspace = live.keyspaces.get(&self.config.keyspace);
        let features = features(&metadata, &live, &differences);
        self.keep_features((live.server, features));
        Ok(Report {
            server: live.server,
            components,
            durable_writes: keyspace.is_none_or(|keyspace| keyspace.durable_writes),
            replicas: keyspace.map_or(1, |keyspace| keyspace.replicas(&self.clusters.points.datacenter())),
            features,
            made_by_biggraphite: is_biggraphites(&metadata, &live),
            names_created_us: self.names_created_us().await?,
            differences,
            clock_difference_ms: self.clock_difference().await?.0,
        })
    }

    /// The server and the features it allows, as of the last check. Reads the schema if there was none yet.
    ///
    /// # Errors
    /// The error of the request, if the server's schema cannot be read.
    pub async fn features(&self) -> Result<(Server, Features), StoreError> {
        if let Some(known) = *self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(known);
        }
        let live = self.live_schema().await?;
        let metadata = self.config.metadata_keyspace();
        let components = live.components(&metadata).filter(|n| *n > 0).unwrap_or(self.config.components);
        let wanted = Schema::with_components(&self.config, components, &BTreeSet::new(), self.clock.now());
        let differences = schema::diff::diff(&wanted, &live);
        self.names.set_components(components);
        Ok(self.keep_features((live.server, features(&metadata, &live, &differences))))
    }

    fn keep_features(&self, found: (Server, Features)) -> (Server, Features) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        found
    }

    /// Reads the schema of both keyspaces from the server. Waits for a connection.
    ///
    /// # Errors
    /// The error of the request, if the schema cannot be read.
    pub async fn live_schema(&self) -> Result<LiveSchema, StoreError> {
        let points = self.clusters.points.wait().await?;
        let names = self.clusters.names.wait().await?;
        let mut live = LiveSchema {
            server: server(&*points).await?,
            keyspaces: Default::default(),
            tables: Default::default(),
            indexes: Vec::new(),
        };
        read_keyspace(&*points, &self.config.keyspace, &mut live).await?;
        read_keyspace(&*names, &self.config.metadata_keyspace(), &mut live).await?;
        Ok(live)
    }

    /// The state of the keyspaces; `None` if one of the two does not exist.
    pub(crate) async fn keyspaces_now(&self) -> Result<Option<KeyspaceState>, StoreError> {
        let Clusters { points, names, .. } = &self.clusters;
        let (points, names) = (points.session().await?, names.session().await?);
        let text = "SELECT durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let of_points: Vec<(bool,)> = query(&*points, text, &(self.config.keyspace.as_str(),)).await?;
        let metadata = self.config.metadata_keyspace();
        let of_names: Vec<(bool,)> = query(&*names, text, &(metadata.as_str(),)).await?;
        let Some(((keeps_commit_log,), _)) = of_points.first().copied().zip(of_names.first()) else {
            return Ok(None);
        };
        Ok(Some(KeyspaceState { keeps_commit_log, names_created_us: self.names_created_us().await? }))
    }

    /// When the server created the table for names. Its id does not tell: `syncdb` gives each table an id that
    /// follows from its name. The row of a key column is written once, because such a column cannot be changed.
    async fn names_created_us(&self) -> Result<Option<i64>, StoreError> {
        let session = self.clusters.names.session().await?;
        let text = "SELECT WRITETIME(type) FROM system_schema.columns \
                    WHERE keyspace_name = ? AND table_name = ? AND column_name = 'name'";
        let metadata = self.config.metadata_keyspace();
        let rows: Vec<(Option<i64>,)> = query(&*session, text, &(metadata.as_str(), METRICS)).await?;
        Ok(rows.first().and_then(|(created,)| *created))
    }

    /// The server's clock minus ours, and the server's clock, in milliseconds.
    pub(crate) async fn clock_difference(&self) -> Result<(i64, i64), StoreError> {
        let session = self.clusters.points.session().await?;
        let before = self.clock.now_ms();
        let text = "SELECT toUnixTimestamp(now()) FROM system.local WHERE key = 'local'";
        let rows: Vec<(i64,)> = query(&*session, text, &()).await?;
        let middle = (before + self.clock.now_ms()) / 2;
        let server = rows.first().map_or(middle, |(server,)| *server);
        self.server_clock.note(server);
        self.stats.clock_difference.set((server - middle) as f64 / 1000.0);
        Ok((server - middle, server))
    }
}

/// The tables for points that cannot be used, with the reasons.
fn unfit(wanted: &Schema, differences: &[Difference]) -> HashMap<Table, String> {
    let mut unfit: HashMap<Table, String> = HashMap::new();
    for difference in differences.iter().filter(|difference| difference.severity == Severity::Fatal) {
        let def = wanted.table(&difference.keyspace, &difference.table);
        let Some(Purpose::Points(table)) = def.map(|def| def.purpose) else { continue };
        let why = unfit.entry(table).or_default();
        if !why.is_empty() {
            why.push_str("; ");
        }
        why.push_str(&difference.what);
    }
    unfit
}

fn features(metadata: &str, live: &LiveSchema, differences: &[Difference]) -> Features {
    let usable = |table: &str| {
        let off =
            |difference: &&Difference| difference.table == table && difference.severity > Severity::Harmless;
        live.table(metadata, table).is_some() && !differences.iter().any(|difference| off(&difference))
    };
    let components = live.components(metadata).unwrap_or(0);
    let indexed = |table: &str| {
        live.has_sasi(metadata, table, "parent")
            && (0..components).all(|n| live.has_sasi(metadata, table, &format!("component_{n}")))
    };
    Features {
        changes: usable(CHANGES),
        tags: usable(TAGS),
        leases: usable(LEASES),
        writers: usable(WRITERS),
        parents: live.has_sasi(metadata, METRICS, "parent"),
        sasi: components > 0 && indexed(METRICS) && indexed(DIRECTORIES),
    }
}

/// Whether BigGraphite created the tables for names: our change feed is missing, or its comment says so.
pub(crate) fn is_biggraphites(metadata: &str, live: &LiveSchema) -> bool {
    let ours = live.table(metadata, CHANGES);
    live.table(metadata, METRICS).is_some()
        && ours.is_none_or(|table| table.comment.contains(BESIDE_BIGGRAPHITE))
}

/// Makes the driver read the keyspaces again, which it otherwise does once a minute. It takes consistency levels and
/// replicas from them.
pub(crate) async fn refresh(session: &dyn Session) {
    if let Err(error) = session.refresh_metadata().await {
        tracing::debug!(error = &error as &dyn std::error::Error, "metadata not refreshed");
    }
}

async fn server(session: &dyn Session) -> Result<Server, StoreError> {
    let text = "SELECT release_version FROM system.local WHERE key = 'local'";
    let rows: Vec<(String,)> = query(session, text, &()).await?;
    let state = session.get_cluster_state();
    let sharded = state.get_nodes_info().iter().any(|node| node.sharder().is_some());
    let engine = if sharded { Engine::Scylla } else { Engine::Cassandra };
    Ok(Server::parse(rows.first().map_or("", |(release,)| release.as_str()), engine))
}

async fn read_keyspace(
    session: &dyn Session,
    keyspace: &str,
    live: &mut LiveSchema,
) -> Result<(), StoreError> {
    type Keyspace = (bool, std::collections::BTreeMap<String, String>);
    let text = "SELECT durable_writes, replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let rows: Vec<Keyspace> = query(session, text, &(keyspace,)).await?;
    let Some((durable_writes, replication)) = rows.into_iter().next() else { return Ok(()) };
    live.keyspaces.insert(keyspace.to_owned(), LiveKeyspace { replication, durable_writes });
    read_tables(session, keyspace, live).await?;
    read_columns(session, keyspace, live).await?;
    read_indexes(session, keyspace, live).await
}

async fn read_tables(session: &dyn Session, keyspace: &str, live: &mut LiveSchema) -> Result<(), StoreError> {
    type Row = (
        String,
        Option<String>,
        Option<HashMap<String, String>>,
        Option<HashMap<String, String>>,
        Option<i32>,
        Option<i32>,
        Option<i32>,
        Option<Vec<String>>,
    );
    let text = "SELECT table_name, comment, compaction, compression, default_time_to_live, gc_grace_seconds, \
                memtable_flush_period_in_ms, flags FROM system_schema.tables WHERE keyspace_name = ?";
    for (name, comment, compaction, compression, ttl, gc_grace, flush, flags) in
        query::<Row>(session, text, &(keyspace,)).await?
    {
        let table = LiveTable {
            columns: Vec::new(),
            comment: comment.unwrap_or_default(),
            ttl: ttl.unwrap_or(0).max(0) as u64,
            gc_grace_seconds: gc_grace.unwrap_or(0).max(0) as u32,
            flush_period_ms: flush.unwrap_or(0).max(0) as u32,
            compaction: compaction.unwrap_or_default(),
            compression: compression.unwrap_or_default(),
            flags: flags.unwrap_or_default(),
        };
        live.tables.insert((keyspace.to_owned(), name), table);
    }
    Ok(())
}

async fn read_columns(
    session: &dyn Session,
    keyspace: &str,
    live: &mut LiveSchema,
) -> Result<(), StoreError> {
    type Row = (String, String, String, String, i32, String);
    let text = "SELECT table_name, column_name, clustering_order, kind, position, type \
                FROM system_schema.columns WHERE keyspace_name = ?";
    for (table, name, order, kind, position, cql_type) in query::<Row>(session, text, &(keyspace,)).await? {
        let Some(table) = live.tables.get_mut(&(keyspace.to_owned(), table)) else { continue };
        let key = match (kind.as_str(), order.as_str()) {
            ("partition_key", _) => Key::Partition,
            ("clustering", "desc") => Key::Descending,
            ("clustering", _) => Key::Ascending,
            _ => Key::None,
        };
        table.columns.push(LiveColumn { name, cql_type, key, position });
    }
    Ok(())
}

async fn read_indexes(
    session: &dyn Session,
    keyspace: &str,
    live: &mut LiveSchema,
) -> Result<(), StoreError> {
    type Row = (String, Option<String>, Option<HashMap<String, String>>);
    let text = "SELECT table_name, kind, options FROM system_schema.indexes WHERE keyspace_name = ?";
    for (table, kind, options) in query::<Row>(session, text, &(keyspace,)).await? {
        let options = options.unwrap_or_default();
        let class = options.get("class_name").cloned().or(kind).unwrap_or_default();
        let class = class.rsplit('.').next().unwrap_or_default().to_owned();
        let target = options.get("target").cloned().unwrap_or_default().trim_matches('"').to_owned();
        live.indexes.push(LiveIndex { keyspace: keyspace.to_owned(), table, class, target });
    }
    Ok(())
}

/// Reads from the system tables. Each node has its own copy, so consistency level ONE is enough.
async fn query<R>(session: &dyn Session, text: &str, values: Values<'_>) -> Result<Vec<R>, StoreError>
where
    R: for<'f> scylla::deserialize::row::DeserializeRow<'f, 'f>,
{
    let operation = "read the server's schema";
    let mut statement = scylla::statement::unprepared::Statement::new(text);
    statement.set_consistency(scylla::statement::Consistency::One);
    let result = session.query_unpaged(statement, values).await.map_err(|e| error::request(operation, e))?;
    let rows = result.into_rows_result().map_err(|e| error::answer(operation, e))?;
    let rows = rows.rows::<R>().map_err(|e| error::answer(operation, e))?;
    rows.collect::<Result<_, _>>().map_err(|e| error::answer(operation, e))
}
