//! `syncdb`: what is missing on the server, and making it. The one place that runs DDL.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use plumbago_store::{ErrorKind, StoreError};
use scylla::client::session::Session;

use crate::check::{BESIDE_BIGGRAPHITE, is_biggraphites};
use crate::config::{Config, Indexes};
use crate::error;
use crate::layout::Table;
use crate::schema::ddl::{Makes, Server, Statement};
use crate::schema::{self, CHANGES, Difference, LiveSchema, Schema};
use crate::store::CassandraStore;

/// What `syncdb` would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What the server is.
    pub server: Server,
    /// The whole schema.
    pub wanted: Schema,
    /// What the server has.
    pub live: LiveSchema,
    /// What is to be run, in this order.
    pub statements: Vec<Statement>,
    /// What is there and different; nothing is ever altered.
    pub differences: Vec<Difference>,
    /// Things left out, with the reason, for people.
    pub notes: Vec<String>,
}

/// Compares a schema with a server. Pure.
pub(crate) fn plan(config: &Config, tables: &BTreeSet<Table>, live: LiveSchema, now: i64) -> Plan {
    let metadata = config.metadata_keyspace();
    let components = live.components(&metadata).filter(|n| *n > 0).unwrap_or(config.components);
    let mut wanted = Schema::with_components(config, components, tables, now);
    if is_biggraphites(&metadata, &live) {
        mark(&mut wanted);
    }
    let mut notes = Vec::new();
    if config.indexes == Indexes::Sasi && !live.server.has_sasi() {
        notes.push("no SASI indexes: the server does not know them; names are found from memory".to_owned());
    }
    if components != config.components {
        notes.push(format!("the tables of names have {components} components, and keep them"));
    }
    let statements =
        wanted.statements(live.server).into_iter().filter(|s| is_missing(&s.makes, &wanted, &live)).collect();
    let differences = schema::diff::diff(&wanted, &live)
        .into_iter()
        .filter(|difference| live.table(&difference.keyspace, &difference.table).is_some())
        .filter(|difference| !difference.what.starts_with("no SASI index"))
        .collect();
    Plan { server: live.server, wanted, live, statements, differences, notes }
}

/// Notes in our table that BigGraphite's were there first: its keyspaces keep its habits.
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
            // Where Lucene serves the components, SASI beside it would cost and help nothing.
            let other = live.other_index(keyspace, table).is_some() && !name.ends_with("_parent_idx");
            index.is_some_and(|index| !live.has_sasi(keyspace, table, &index.column)) && !other
        }
    }
}

impl CassandraStore {
    /// Finds out what `syncdb` has to do for these tables of points.
    pub async fn plan_sync(&self, tables: &BTreeSet<Table>) -> Result<Plan, StoreError> {
        Ok(plan(&self.config, tables, self.live_schema().await?, self.clock.now()))
    }

    /// Does it; `done` hears of each statement. Waits after each until all nodes know of it.
    pub async fn sync(&self, plan: &Plan, done: &mut dyn FnMut(&Statement)) -> Result<(), StoreError> {
        let points = self.clusters.points.wait().await?;
        let names = self.clusters.names.wait().await?;
        for statement in &plan.statements {
            let keyspace = match &statement.makes {
                Makes::Keyspace(keyspace) | Makes::Table(keyspace, _) | Makes::Index(keyspace, ..) => {
                    keyspace
                }
            };
            let session = if *keyspace == self.config.keyspace { &points } else { &names };
            run(session, statement, plan.server).await?;
            done(statement);
        }
        self.retry_tables();
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

async fn run(session: &Session, statement: &Statement, server: Server) -> Result<(), StoreError> {
    let what = match &statement.makes {
        Makes::Keyspace(name) => format!("create the keyspace {name}"),
        Makes::Table(keyspace, name) => format!("create the table {keyspace}.{name}"),
        Makes::Index(keyspace, _, name) => format!("create the index {keyspace}.{name}"),
    };
    let Err(failure) = session.query_unpaged(statement.cql.as_str(), ()).await else { return Ok(()) };
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
