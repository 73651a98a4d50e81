//! Prepared statements, made when they are first needed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use plumbago_store::{ErrorKind, StoreError};
use scylla::client::session::Session;
use scylla::cluster::metadata::{ColumnType, NativeType};
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use crate::config::Config;
use crate::error;
use crate::layout::Table;
use crate::session::{Cluster, consistency, speculative};
use crate::statements::Points;

/// How long a table that was refused is not asked for again.
const REFUSED_FOR: Duration = Duration::from_secs(2);

/// Statements on names that are kept.
const TEXTS_MAX: usize = 1000;

/// The statements of one table of points.
#[derive(Debug)]
pub(crate) struct TableStatements {
    pub(crate) insert: PreparedStatement,
    pub(crate) insert_late: PreparedStatement,
    pub(crate) select: PreparedStatement,
    pub(crate) select_timed: Option<PreparedStatement>,
    pub(crate) delete: PreparedStatement,
    pub(crate) write_consistency: Consistency,
}

/// The statements of all tables of points that were used.
#[derive(Debug)]
pub(crate) struct Tables {
    cluster: Arc<Cluster>,
    config: Config,
    ready: RwLock<HashMap<Table, Arc<TableStatements>>>,
    refused: Mutex<HashMap<Table, (Instant, String)>>,
    /// Tables that were wanted for writing: one that is only asked for and is not there lacks nothing.
    written: RwLock<HashSet<Table>>,
    /// Tables that the check found unfit, until the next check.
    unfit: RwLock<HashMap<Table, String>>,
}

impl Tables {
    pub(crate) fn new(cluster: Arc<Cluster>, config: &Config) -> Self {
        Self {
            cluster,
            config: config.clone(),
            ready: RwLock::default(),
            refused: Mutex::default(),
            written: RwLock::default(),
            unfit: RwLock::default(),
        }
    }

    /// Takes the findings of a check: these tables, and no others, are not to be used.
    pub(crate) fn set_unfit(&self, unfit: HashMap<Table, String>) {
        // All of them: the replicas decide on the level of a statement, and may be others now.
        self.ready.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.unfit.write().unwrap_or_else(PoisonError::into_inner) = unfit;
    }

    pub(crate) async fn session(&self) -> Result<Arc<Session>, StoreError> {
        self.cluster.session().await
    }

    /// The same, for writing.
    pub(crate) async fn get_to_write(&self, table: Table) -> Result<Arc<TableStatements>, StoreError> {
        let statements = self.get(table).await;
        if statements.is_err() && !self.is_written(table) {
            self.written.write().unwrap_or_else(PoisonError::into_inner).insert(table);
        }
        statements
    }

    fn is_written(&self, table: Table) -> bool {
        self.written.read().unwrap_or_else(PoisonError::into_inner).contains(&table)
    }

    /// The statements of a table. One that is missing or of another form is an error of the kind
    /// `Invalid`, from memory for a moment.
    pub(crate) async fn get(&self, table: Table) -> Result<Arc<TableStatements>, StoreError> {
        if let Some(ready) = self.ready.read().unwrap_or_else(PoisonError::into_inner).get(&table) {
            return Ok(ready.clone());
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
                self.ready.write().unwrap_or_else(PoisonError::into_inner).insert(table, statements.clone());
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

    /// Drops the statements of a table that the server no longer takes.
    pub(crate) fn forget(&self, table: Table, why: &str) {
        self.ready.write().unwrap_or_else(PoisonError::into_inner).remove(&table);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.insert(table, (Instant::now(), why.to_owned()));
    }

    /// Lets every table be tried again at once.
    pub(crate) fn forgive(&self) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Tables that writes were refused for lately.
    pub(crate) fn refused(&self) -> Vec<(Table, String)> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = self.ready.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = refused
            .iter()
            .filter(|(table, _)| !ready.contains_key(table) && self.is_written(**table))
            .map(|(table, (_, why))| (*table, why.clone()))
            .collect();
        let unfit = self.unfit.read().unwrap_or_else(PoisonError::into_inner);
        all.extend(unfit.iter().map(|(table, why)| (*table, why.clone())));
        all.sort();
        all.dedup_by_key(|(table, _)| *table);
        all
    }

    fn refusal(&self, table: Table) -> Option<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(&table).filter(|(at, _)| at.elapsed() < REFUSED_FOR).map(|(_, why)| why.clone())
    }

    fn refuse(&self, table: Table, why: String) -> StoreError {
        let operation =
            format!("use the table {}.{} (run `plumbago syncdb`)", self.config.keyspace, table.name());
        StoreError::with(ErrorKind::Invalid, operation, why)
    }

    async fn prepare(&self, table: Table) -> Result<TableStatements, StoreError> {
        let session = self.cluster.session().await?;
        let text = Points::new(&self.config.keyspace, table);
        let level = |level| consistency(level, &session, &self.config.keyspace, &self.config.datacenter);
        let (write, read) = (level(self.config.consistency.write), level(self.config.consistency.read));
        let insert = statement(&session, &text.insert, write).await?;
        check_types(&insert, table)?;
        let mut select = statement(&session, &text.select, read).await?;
        let mut select_timed = match &text.select_timed {
            Some(text) => Some(statement(&session, text, read).await?),
            None => None,
        };
        let speculative = speculative(&session, *self.config.speculative_after);
        for select in select_timed.iter_mut().chain([&mut select]) {
            select.set_execution_profile_handle(speculative.clone());
        }
        Ok(TableStatements {
            insert,
            insert_late: statement(&session, &text.insert_late, write).await?,
            select,
            select_timed,
            delete: statement(&session, &text.delete, write).await?,
            write_consistency: write,
        })
    }
}

/// Prepares one idempotent statement.
pub(crate) async fn statement(
    session: &Session,
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

/// Rows are written as bytes without a further look, so the types have to be those that we think of.
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

/// Statements on the names, by their text and the level they are asked with.
#[derive(Debug)]
pub(crate) struct NameStatements {
    ready: RwLock<HashMap<(String, u16), Arc<PreparedStatement>>>,
}

impl NameStatements {
    pub(crate) fn new() -> Self {
        Self { ready: RwLock::default() }
    }

    /// The statement of this text. One text is asked with several levels: who writes must know more than who
    /// reads.
    pub(crate) async fn get(
        &self,
        session: &Session,
        text: String,
        consistency: Consistency,
    ) -> Result<Arc<PreparedStatement>, StoreError> {
        let key = (text, consistency as u16);
        if let Some(ready) = self.ready.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(ready.clone());
        }
        let prepared = Arc::new(statement(session, &key.0, consistency).await?);
        let mut ready = self.ready.write().unwrap_or_else(PoisonError::into_inner);
        // Globs decide on the form of searches, so the number of texts has no other bound.
        if ready.len() >= TEXTS_MAX {
            ready.clear();
        }
        ready.insert(key, prepared.clone());
        Ok(prepared)
    }
}
