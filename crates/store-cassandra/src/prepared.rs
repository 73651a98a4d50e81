//! Prepared statements. Each is prepared when it is first needed.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use dashmap::{DashMap, DashSet};
use plumbago_store::{ErrorKind, StoreError};
use scylla::cluster::metadata::{ColumnType, NativeType};
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use crate::config::Config;
use crate::consistency::{consistency, decisive};
use crate::driver::Session;
use crate::error;
use crate::layout::Table;
use crate::session::{Cluster, speculative};
use crate::statements::Points;

/// How long a refused table is not tried again.
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// A table is reported for this long after its last denied write. Its rows are retried more often than that.
const DENIED_FOR: Duration = Duration::from_secs(300);

/// Maximum number of prepared statements on the tables for names that are kept.
const TEXTS_MAX: usize = 1000;

/// The prepared statements on one table for points.
#[derive(Debug)]
pub(crate) struct TableStatements {
    pub(crate) insert: PreparedStatement,
    pub(crate) insert_late: PreparedStatement,
    pub(crate) select: PreparedStatement,
    pub(crate) select_timed: PreparedStatement,
    /// This and the next three statements ask all replicas: a replica that misses a deletion could undo it
    /// later.
    pub(crate) any: PreparedStatement,
    pub(crate) delete: PreparedStatement,
    pub(crate) any_in: PreparedStatement,
    pub(crate) delete_in: PreparedStatement,
    /// Has the consistency level of reads. If the result decides on a write, a copy of the statement gets
    /// `decisive_consistency`.
    pub(crate) occupied: PreparedStatement,
    pub(crate) write_consistency: Consistency,
    /// The level of reads whose result decides on a write.
    pub(crate) decisive_consistency: Consistency,
    /// The local data centre; empty for no preference.
    pub(crate) datacenter: Arc<str>,
    /// The number of changes of the replication that the levels and the data centre include.
    changes: u64,
}

/// The prepared statements on all tables for points that were used.
#[derive(Debug)]
pub(crate) struct Tables {
    cluster: Arc<Cluster>,
    config: Config,
    ready: DashMap<Table, Arc<TableStatements>>,
    refused: DashMap<Table, (Instant, String)>,
    /// Tables to which the role may not write, with the server's message. Unlike refused ones they can be
    /// read.
    denied: DashMap<Table, (Instant, String)>,
    /// Tables that were needed for a write. A missing table that is only read needs no attention.
    written: DashSet<Table>,
    /// Tables that could be used at least once.
    used: DashSet<Table>,
    /// Tables that the last check found unusable, with the reason. The whole map is replaced at once, so it has one
    /// lock.
    unfit: RwLock<HashMap<Table, String>>,
}

impl Tables {
    pub(crate) fn new(cluster: Arc<Cluster>, config: &Config) -> Self {
        Self {
            cluster,
            config: config.clone(),
            ready: DashMap::new(),
            refused: DashMap::new(),
            denied: DashMap::new(),
            written: DashSet::new(),
            used: DashSet::new(),
            unfit: RwLock::default(),
        }
    }

    /// Sets which tables cannot be used, as found by a check. Replaces the findings of the last check.
    pub(crate) fn set_unfit(&self, unfit: HashMap<Table, String>) {
        self.ready.clear();
        self.refused.clear();
        *self.unfit.write().unwrap_or_else(PoisonError::into_inner) = unfit;
    }

    pub(crate) async fn session(&self) -> Result<Arc<dyn Session>, StoreError> {
        self.cluster.session().await
    }

    /// Like `get`, for a write. If the table cannot be used, it is reported. If the role may not write to it,
    /// every call fails for a while, as for a missing table.
    pub(crate) async fn get_to_write(&self, table: Table) -> Result<Arc<TableStatements>, StoreError> {
        if let Some(why) = self.denial(table) {
            let operation =
                format!("write to {}.{} (grant the role MODIFY on it)", self.config.keyspace, table.name());
            return Err(StoreError::with(ErrorKind::Invalid, operation, why));
        }
        let statements = self.get(table).await;
        if statements.is_err() && !self.written.contains(&table) {
            self.written.insert(table);
        }
        statements
    }

    /// The statements on a table. If the table is missing or has the wrong form, the error is `Invalid`, and
    /// for a while (`REFUSED_FOR`) it is returned without asking the server again.
    pub(crate) async fn get(&self, table: Table) -> Result<Arc<TableStatements>, StoreError> {
        let ready = self.ready.get(&table).map(|ready| ready.clone());
        if let Some(ready) = ready.filter(|ready| ready.changes == self.cluster.replication_changes()) {
            return Ok(ready);
        }
        if let Some(why) = self.unfit.read().unwrap_or_else(PoisonError::into_inner).get(&table) {
            return Err(self.refuse(table, why.clone()));
        }
        if let Some(why) = self.refusal(table) {
            return Err(self.refuse(table, why));
        }
        match self.prepare(table).await {
            Ok(statements) => {
                let statements = Arc::new(statements);
                self.ready.insert(table, statements.clone());
                self.used.insert(table);
                Ok(statements)
            }
            Err(error) if error::is_invalid(&error) => {
                let why = error.source.as_ref().map_or_else(|| error.to_string(), ToString::to_string);
                self.forget(table, &why);
                Err(self.refuse(table, why))
            }
            Err(error) => Err(error),
        }
    }

    /// Drops the statements on a table because the server refuses them.
    pub(crate) fn forget(&self, table: Table, why: &str) {
        self.ready.remove(&table);
        self.refused.insert(table, (Instant::now(), why.to_owned()));
    }

    /// Notes that the role may not write to a table.
    pub(crate) fn deny(&self, table: Table, why: &str) {
        self.denied.insert(table, (Instant::now(), why.to_owned()));
    }

    /// Notes that a table was written.
    pub(crate) fn wrote(&self, table: Table) {
        if !self.denied.is_empty() {
            self.denied.remove(&table);
        }
    }

    /// Makes the next request try every refused table again.
    pub(crate) fn forgive(&self) {
        self.refused.clear();
    }

    /// Tables that currently cannot be written, and those that the last check found unusable, each with the
    /// reason.
    pub(crate) fn refused(&self) -> Vec<(Table, String)> {
        let mut all: Vec<_> = self.refused.iter().map(|one| (*one.key(), one.value().1.clone())).collect();
        all.retain(|(table, _)| !self.ready.contains_key(table) && self.written.contains(table));
        let unfit = self.unfit.read().unwrap_or_else(PoisonError::into_inner);
        all.extend(unfit.iter().map(|(table, why)| (*table, why.clone())));
        let denied = self.denied.iter().filter(|one| one.0.elapsed() < DENIED_FOR);
        all.extend(denied.map(|one| (*one.key(), format!("{}; grant the role MODIFY on it", one.value().1))));
        all.sort();
        all.dedup_by_key(|(table, _)| *table);
        all
    }

    /// Tables that were used since the start.
    pub(crate) fn used(&self) -> BTreeSet<Table> {
        self.used.iter().map(|table| *table).collect()
    }

    fn refusal(&self, table: Table) -> Option<String> {
        self.refused.get(&table).filter(|one| one.0.elapsed() < REFUSED_FOR).map(|one| one.1.clone())
    }

    fn denial(&self, table: Table) -> Option<String> {
        self.denied.get(&table).filter(|one| one.0.elapsed() < REFUSED_FOR).map(|one| one.1.clone())
    }

    fn refuse(&self, table: Table, why: String) -> StoreError {
        let operation =
            format!("use the table {}.{} (run `plumbago syncdb`)", self.config.keyspace, table.name());
        StoreError::with(ErrorKind::Invalid, operation, why)
    }

    async fn prepare(&self, table: Table) -> Result<TableStatements, StoreError> {
        let session = self.cluster.session().await?;
        let text = Points::new(&self.config.keyspace, table);
        // Read before the statements are prepared: any later change makes them outdated.
        let changes = self.cluster.replication_changes();
        let datacenter = self.cluster.datacenter();
        let level = |level| consistency(level, &*session, &self.config.keyspace, &datacenter);
        let (write, read) = (level(self.config.consistency.write), level(self.config.consistency.read));
        let insert = statement(&*session, &text.insert, write).await?;
        check_types(&insert, table)?;
        let mut select = statement(&*session, &text.select, read).await?;
        let mut select_timed = statement(&*session, &text.select_timed, read).await?;
        let speculative = speculative(&*session, *self.config.speculative_after);
        for select in [&mut select_timed, &mut select] {
            select.set_execution_profile_handle(speculative.clone());
        }
        Ok(TableStatements {
            insert,
            insert_late: statement(&*session, &text.insert_late, write).await?,
            select,
            select_timed,
            any: statement(&*session, &text.any, Consistency::All).await?,
            delete: statement(&*session, &text.delete, Consistency::All).await?,
            any_in: statement(&*session, &text.any_in, Consistency::All).await?,
            delete_in: statement(&*session, &text.delete_in, Consistency::All).await?,
            occupied: statement(&*session, &text.occupied, read).await?,
            write_consistency: write,
            decisive_consistency: decisive(write, read),
            datacenter,
            changes,
        })
    }
}

/// Prepares a statement that is safe to repeat.
pub(crate) async fn statement(
    session: &dyn Session,
    text: &str,
    consistency: Consistency,
) -> Result<PreparedStatement, StoreError> {
    let operation = || format!("prepare {text:?}");
    let mut statement = session.prepare(text).await.map_err(|error| error::prepare(operation(), error))?;
    statement.set_consistency(consistency);
    statement.set_is_idempotent(true);
    statement.set_use_cached_result_metadata(true);
    Ok(statement)
}

/// Checks the column types of a table. Rows are serialised for these types without any further check.
fn check_types(insert: &PreparedStatement, table: Table) -> Result<(), StoreError> {
    use NativeType::{BigInt, Double, SmallInt, Uuid};
    let wanted: &[NativeType] = if table.coarse {
        &[Uuid, BigInt, SmallInt, SmallInt, Double, SmallInt]
    } else {
        &[Uuid, BigInt, SmallInt, Double]
    };
    let specs = insert.get_variable_col_specs();
    for (spec, wanted) in specs.iter().zip(wanted) {
        if *spec.typ() != ColumnType::Native(wanted.clone()) {
            let operation = format!("use column {} as {wanted:?}: it is {:?}", spec.name(), spec.typ());
            return Err(StoreError::new(ErrorKind::Invalid, operation));
        }
    }
    Ok(())
}

/// Prepared statements on the tables for names, by their text and consistency level.
#[derive(Debug)]
pub(crate) struct NameStatements {
    ready: DashMap<(String, u16), Arc<PreparedStatement>>,
}

impl NameStatements {
    pub(crate) fn new() -> Self {
        Self { ready: DashMap::new() }
    }

    /// The prepared statement with this text and consistency level. The same text is used with several
    /// levels, because a read that decides on a write needs a higher one.
    pub(crate) async fn get(
        &self,
        session: &dyn Session,
        text: String,
        consistency: Consistency,
    ) -> Result<Arc<PreparedStatement>, StoreError> {
        let key = (text, consistency as u16);
        // No guard of the map is held while the statement is prepared.
        if let Some(ready) = self.ready.get(&key).map(|ready| ready.clone()) {
            return Ok(ready);
        }
        let prepared = Arc::new(statement(session, &key.0, consistency).await?);
        // The text of a search depends on its glob, so nothing else limits the number of texts.
        if self.ready.len() >= TEXTS_MAX {
            self.ready.clear();
        }
        self.ready.insert(key, prepared.clone());
        Ok(prepared)
    }
}
