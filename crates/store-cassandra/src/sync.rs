//! `syncdb`: finds out what is missing on the server and creates it. No other code changes the schema.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use plumbago_store::{ErrorKind, StoreError};
use scylla::statement::Statement as Request;

use crate::check::{BESIDE_BIGGRAPHITE, is_biggraphites, refresh};
use crate::config::{Config, Indexes};
use crate::driver::Session;
use crate::error;
use crate::layout::Table;
use crate::schema::ddl::{Makes, Server, Statement};
use crate::schema::{self, CHANGES, Compression, Difference, LiveSchema, Schema};
use crate::store::CassandraStore;

/// Timeout of one statement. It does not depend on `store.cassandra.request_timeout`, because a change of the
/// schema waits for all nodes.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);

/// The plan of a `syncdb` run.
#[derive(Debug, Clone, PartialEq)]
pub struct SyncPlan {
    /// The product and version of the server.
    pub server: Server,
    /// The schema that is needed.
    pub wanted: Schema,
    /// The schema of the server.
    pub live: LiveSchema,
    /// The statements to run, in this order.
    pub statements: Vec<Statement>,
    /// Differences of existing tables, which are never altered.
    pub differences: Vec<Difference>,
    /// What was left out and why, for operators.
    pub notes: Vec<String>,
    /// Statements that would give existing tables the wanted compression. They are never run.
    pub compression_changes: Vec<String>,
}

/// Plans what to create on a server with the schema `live`. `now` is in seconds since the epoch. No I/O.
pub(crate) fn plan(
    config: &Config,
    tables: &BTreeSet<Table>,
    compression: Option<Compression>,
    live: LiveSchema,
    now: i64,
) -> SyncPlan {
    let metadata = config.metadata_keyspace();
    let components = live.components(&metadata).filter(|n| *n > 0).unwrap_or(config.components);
    let mut wanted = Schema::with_components(config, components, tables, now);
    if is_biggraphites(&metadata, &live) {
        mark(&mut wanted);
    }
    if let Some(compression) = compression {
        wanted.compress(compression);
    }
    let mut notes = Vec::new();
    if config.indexes == Indexes::Sasi && !live.server.has_sasi() {
        notes
            .push("the server does not support SASI indexes; names can only be found from memory".to_owned());
    }
    if components != config.components {
        notes.push(format!("the tables for names keep their {components} component columns"));
    }
    let statements =
        wanted.statements(live.server).into_iter().filter(|s| is_missing(&s.makes, &wanted, &live)).collect();
    let differences = schema::diff::diff(&wanted, &live)
        .into_iter()
        .filter(|difference| live.table(&difference.keyspace, &difference.table).is_some())
        .filter(|difference| !difference.what.starts_with("no SASI index"))
        .collect();
    let compression_changes = wanted.compression_changes(&live);
    SyncPlan { server: live.server, wanted, live, statements, differences, notes, compression_changes }
}

/// Records in the comment of our table that BigGraphite created the keyspace, so that later checks can
/// still tell (in such keyspaces some behaviour follows BigGraphite).
fn mark(wanted: &mut Schema) {
    for table in wanted.tables.iter_mut().filter(|table| table.name == CHANGES) {
        let comment = table.options.comment.take().unwrap_or_default();
        table.options.comment = Some(format!("{comment}; {BESIDE_BIGGRAPHITE}"));
    }
}

fn is_missing(makes: &Makes, wanted: &Schema, live: &LiveSchema) -> bool {
    match makes {
        Makes::Keyspace(name) => !live.keyspaces.contains_key(name),
        Makes::Table(keyspace, table) => live.table(keyspace, table).is_none(),
        Makes::Index(keyspace, table, name) => {
            let def = wanted.table(keyspace, table);
            let index = def.and_then(|def| def.indexes.iter().find(|index| index.name == *name));
            // If a Lucene index already covers the components, SASI indexes would only add cost.
            let other = live.other_index(keyspace, table).is_some() && !name.ends_with("_parent_idx");
            index.is_some_and(|index| !live.has_sasi(keyspace, table, &index.column)) && !other
        }
    }
}

impl CassandraStore {
    /// Plans what `syncdb` has to create so that these tables for points exist, with this compression or the
    /// server's default. Waits for a connection.
    ///
    /// # Errors
    /// `Invalid` if the server does not have this compression; otherwise the error of the request, if the server's
    /// schema cannot be read.
    pub async fn plan_sync(
        &self,
        tables: &BTreeSet<Table>,
        compression: Option<Compression>,
    ) -> Result<SyncPlan, StoreError> {
        let live = self.live_schema().await?;
        if let Some(problem) = compression.and_then(|compression| compression.problem(live.server)) {
            return Err(StoreError::with(ErrorKind::Invalid, "choose the compression", problem));
        }
        Ok(plan(&self.config, tables, compression, live, self.clock.now()))
    }

    /// Runs the statements of a plan, and calls `done` after each. After each statement it waits until all
    /// nodes agree on the schema.
    ///
    /// # Errors
    /// `Invalid` if the server refuses a statement, e.g. because SASI indexes are disabled; otherwise the error of the
    /// request. Statements that ran before remain in effect, and the rest is not run.
    pub async fn sync(&self, plan: &SyncPlan, done: &mut dyn FnMut(&Statement)) -> Result<(), StoreError> {
        let points = self.clusters.points.wait().await?;
        let names = self.clusters.names.wait().await?;
        for statement in &plan.statements {
            let keyspace = match &statement.makes {
                Makes::Keyspace(keyspace) | Makes::Table(keyspace, _) | Makes::Index(keyspace, ..) => {
                    keyspace
                }
            };
            let session = if *keyspace == self.config.keyspace { &*points } else { &*names };
            run(session, statement, plan.server).await?;
            done(statement);
        }
        if !plan.statements.is_empty() {
            refresh(&*points).await;
            if !Arc::ptr_eq(&self.clusters.points, &self.clusters.names) {
                refresh(&*names).await;
            }
        }
        self.retry_tables();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

async fn run(session: &dyn Session, statement: &Statement, server: Server) -> Result<(), StoreError> {
    let what = match &statement.makes {
        Makes::Keyspace(name) => format!("create the keyspace {name}"),
        Makes::Table(keyspace, name) => format!("create the table {keyspace}.{name}"),
        Makes::Index(keyspace, _, name) => format!("create the index {keyspace}.{name}"),
    };
    let mut request = Request::new(statement.cql.as_str());
    request.set_request_timeout(Some(SCHEMA_TIMEOUT));
    let Err(failure) = session.query_unpaged(request, &()).await else { return Ok(()) };
    let text = failure.to_string();
    if matches!(statement.makes, Makes::Index(..)) && text.contains("SASI") && text.contains("disabled") {
        let operation = format!(
            "{what}: SASI indexes are disabled on the server. Set `{}` in cassandra.yaml of every node, or \
             store.cassandra.indexes = \"none\" and index.mode = \"memory\"",
            server.sasi_setting(),
        );
        return Err(StoreError::with(ErrorKind::Invalid, operation, failure));
    }
    Err(error::request(what, failure))
}
