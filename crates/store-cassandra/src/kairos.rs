//! Reads the tables of a KairosDB for an import. It never writes to them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{
    ErrorKind, KairosCells, KairosConnector, KairosPage, KairosTables, KairosUnit, Share, StoreError,
};
use plumbago_telemetry::Registry;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;

use crate::config::Config;
use crate::driver::{Session, Values};
use crate::error;
use crate::prepared::{NameStatements, statement};
use crate::scan::{TokenRange, rows_and_next};
use crate::schema::ddl::quoted;
use crate::session::Cluster;
use crate::stats::Stats;

/// Number of cells in one page.
const PAGE_CELLS: i32 = 20_000;
/// Timeout of the first answer of the servers.
const FIRST: Duration = Duration::from_secs(20);

/// The name of the table of points, as the index tables spell it.
const POINTS: &str = "data_points";
const POINTS_OF: &str = "SELECT key, column1, value, TTL(value) FROM";

/// A keyspace of a KairosDB.
#[derive(Debug)]
pub struct KairosKeyspace {
    _cluster: Cluster,
    session: Arc<dyn Session>,
    keyspace: String,
    tables: BTreeSet<String>,
    /// Statements on the indexes, each prepared once.
    indexes: NameStatements,
    scan: PreparedStatement,
    row: PreparedStatement,
}

impl KairosKeyspace {
    /// Connects to a keyspace, with user, password and TLS of `config`, and with its contact points if none are given.
    ///
    /// # Errors
    /// `Unavailable` if no server answers, `Invalid` if this is not a keyspace of a KairosDB.
    pub async fn connect(
        config: &Config,
        keyspace: &str,
        contact_points: &[String],
    ) -> Result<Self, StoreError> {
        let mut config = config.clone();
        if !contact_points.is_empty() {
            config.contact_points = contact_points.to_vec();
        }
        let stats = Stats::new(&Registry::new());
        let cluster = Cluster::for_reading(&config, keyspace, "a KairosDB", &stats)?;
        let session = tokio::time::timeout(FIRST, cluster.session()).await;
        let session = session.unwrap_or_else(|_| cluster.current())?;
        let tables = tables(&*session, keyspace).await?;
        if !tables.contains(POINTS) {
            let why = match tables.is_empty() {
                true => "there is no such keyspace",
                false => "it has no table data_points, so it is not of a KairosDB",
            };
            return Err(StoreError::with(ErrorKind::Invalid, format!("read the keyspace {keyspace}"), why));
        }
        let table = format!("{}.{POINTS}", quoted(keyspace));
        let by_token = format!("{POINTS_OF} {table} WHERE token(key) >= ? AND token(key) <= ?");
        let scan = prepare(&*session, &by_token).await?;
        let row = prepare(&*session, &format!("{POINTS_OF} {table} WHERE key = ?")).await?;
        Ok(Self {
            _cluster: cluster,
            session,
            keyspace: keyspace.to_owned(),
            tables,
            indexes: NameStatements::new(),
            scan,
            row,
        })
    }

    /// All rows of a statement.
    async fn all(&self, text: &str, values: Values<'_>) -> Result<Vec<QueryRowsResult>, StoreError> {
        let statement = self.indexes.get(&*self.session, text.to_owned(), Consistency::LocalQuorum).await?;
        let mut pages = Vec::new();
        let mut position = None;
        loop {
            let (rows, next) = page(&*self.session, &statement, values, position).await?;
            pages.push(rows);
            position = next;
            if position.is_none() {
                return Ok(pages);
            }
        }
    }

    fn table(&self, name: &str) -> Option<String> {
        self.tables.contains(name).then(|| format!("{}.{name}", quoted(&self.keyspace)))
    }
}

#[boxed_futures]
impl KairosTables for KairosKeyspace {
    async fn unit(&self) -> Result<KairosUnit, StoreError> {
        if let Some(table) = self.table("spec") {
            let text = format!(
                "SELECT value FROM {table} WHERE spec_type = 'cluster_config' AND name = 'row_time_unit'"
            );
            let pages = self.all(&text, &()).await?;
            if let Some(value) = column::<Option<String>>(&pages)?.into_iter().flatten().next() {
                return match &*value {
                    "LEGACY" => Ok(KairosUnit::Legacy),
                    "MILLISECONDS" => Ok(KairosUnit::Milliseconds),
                    "SECONDS" => Ok(KairosUnit::Seconds),
                    other => {
                        let why = format!("its table spec has the unknown row_time_unit {other:?}");
                        let operation = format!("read the keyspace {}", self.keyspace);
                        Err(StoreError::with(ErrorKind::Invalid, operation, why))
                    }
                };
            }
        }
        // Version 1.3 decides by the same rule when it opens the keyspace: one that already has metric names
        // is an old one.
        let Some(table) = self.table("string_index") else { return Ok(KairosUnit::Legacy) };
        let text = format!("SELECT column1 FROM {table} WHERE key = textAsBlob('metric_names') LIMIT 1");
        let pages = self.all(&text, &()).await?;
        let has_names = pages.iter().any(|page| page.rows_num() > 0);
        Ok(if has_names { KairosUnit::Legacy } else { KairosUnit::Milliseconds })
    }

    async fn scan(&self, share: Share, position: Option<Vec<u8>>) -> Result<KairosPage, StoreError> {
        let range = TokenRange::of(share);
        let (rows, next) = page(&*self.session, &self.scan, &(range.first, range.last), position).await?;
        Ok(KairosPage { rows: cells(&rows)?, next })
    }

    async fn metrics(&self) -> Result<Vec<String>, StoreError> {
        let mut metrics = BTreeSet::new();
        if let Some(table) = self.table("row_key_time_index") {
            let pages = self.all(&format!("SELECT DISTINCT metric FROM {table}"), &()).await?;
            metrics.extend(column::<String>(&pages)?);
        }
        if let Some(table) = self.table("row_key_index") {
            let pages = self.all(&format!("SELECT DISTINCT key FROM {table}"), &()).await?;
            // A key that is not UTF-8 is not the name of a metric that can be imported.
            metrics.extend(column::<Vec<u8>>(&pages)?.into_iter().flat_map(String::from_utf8));
        }
        Ok(metrics.into_iter().collect())
    }

    async fn row_times(&self, metric: &str) -> Result<Vec<i64>, StoreError> {
        let Some(table) = self.table("row_key_time_index") else { return Ok(Vec::new()) };
        let text = format!("SELECT row_time FROM {table} WHERE metric = ? AND table_name = ?");
        let pages = self.all(&text, &(metric, POINTS)).await?;
        Ok(column::<CqlTimestamp>(&pages)?.into_iter().map(|CqlTimestamp(time)| time).collect())
    }

    async fn listed(
        &self,
        metric: &str,
        row_time_ms: i64,
    ) -> Result<Vec<(String, Vec<(String, String)>)>, StoreError> {
        let Some(table) = self.table("row_keys") else { return Ok(Vec::new()) };
        let text = format!(
            "SELECT data_type, tags FROM {table} WHERE metric = ? AND table_name = ? AND row_time = ?"
        );
        let pages = self.all(&text, &(metric, POINTS, CqlTimestamp(row_time_ms))).await?;
        let mut listed = Vec::new();
        for page in &pages {
            // A partition that has only its static column returns a row of nulls.
            type Row = (Option<String>, Option<HashMap<String, String>>);
            for row in page.rows::<Row>().map_err(|error| error::answer("read row_keys", error))? {
                if let (Some(kind), Some(tags)) =
                    row.map_err(|error| error::answer("read row_keys", error))?
                {
                    listed.push((kind, tags.into_iter().collect()));
                }
            }
        }
        Ok(listed)
    }

    async fn listed_before(&self, metric: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let Some(table) = self.table("row_key_index") else { return Ok(Vec::new()) };
        let text = format!("SELECT column1 FROM {table} WHERE key = ?");
        column(&self.all(&text, &(metric.as_bytes(),)).await?)
    }

    async fn row(&self, key: &[u8], position: Option<Vec<u8>>) -> Result<KairosPage, StoreError> {
        let (rows, next) = page(&*self.session, &self.row, &(key,), position).await?;
        Ok(KairosPage { rows: cells(&rows)?, next })
    }
}

/// Connects with the settings of the store.
#[derive(Debug)]
pub struct KairosServers(pub Config);

#[boxed_futures]
impl KairosConnector for KairosServers {
    async fn connect(
        &self,
        keyspace: &str,
        contact_points: &[String],
    ) -> Result<Arc<dyn KairosTables>, StoreError> {
        Ok(Arc::new(KairosKeyspace::connect(&self.0, keyspace, contact_points).await?))
    }
}

/// The tables of a keyspace; none if there is no such keyspace.
async fn tables(session: &dyn Session, keyspace: &str) -> Result<BTreeSet<String>, StoreError> {
    let text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
    let named = prepare(session, text).await?;
    let (rows, _) = page(session, &named, &(keyspace,), None).await?;
    Ok(column::<String>(&[rows])?.into_iter().collect())
}

async fn prepare(session: &dyn Session, text: &str) -> Result<PreparedStatement, StoreError> {
    let mut prepared = statement(session, text, Consistency::LocalQuorum).await?;
    prepared.set_page_size(PAGE_CELLS);
    Ok(prepared)
}

async fn page(
    session: &dyn Session,
    statement: &PreparedStatement,
    values: Values<'_>,
    position: Option<Vec<u8>>,
) -> Result<(QueryRowsResult, Option<Vec<u8>>), StoreError> {
    const WHAT: &str = "read a KairosDB";
    let state = position.map_or_else(PagingState::start, PagingState::new_from_raw_bytes);
    let result = session.execute_single_page(statement, values, state).await;
    rows_and_next(WHAT, result.map_err(|error| error::request(WHAT, error))?)
}

/// The only column of the rows.
fn column<T>(pages: &[QueryRowsResult]) -> Result<Vec<T>, StoreError>
where
    T: for<'a> scylla::deserialize::value::DeserializeValue<'a, 'a>,
{
    const WHAT: &str = "read an index of a KairosDB";
    let mut values = Vec::new();
    for page in pages {
        for row in page.rows::<(T,)>().map_err(|error| error::answer(WHAT, error))? {
            values.push(row.map_err(|error| error::answer(WHAT, error))?.0);
        }
    }
    Ok(values)
}

/// The cells of a page by row.
fn cells(page: &QueryRowsResult) -> Result<Vec<KairosCells>, StoreError> {
    const WHAT: &str = "read data_points of a KairosDB";
    type Row<'a> = (&'a [u8], &'a [u8], Option<&'a [u8]>, Option<i32>);
    let mut rows: Vec<KairosCells> = Vec::new();
    for row in page.rows::<Row<'_>>().map_err(|error| error::answer(WHAT, error))? {
        let (key, column, value, ttl) = row.map_err(|error| error::answer(WHAT, error))?;
        if rows.last().is_none_or(|last| last.key != key) {
            rows.push(KairosCells { key: key.to_vec(), ..KairosCells::default() });
        }
        let Some(last) = rows.last_mut() else { continue };
        match <[u8; 4]>::try_from(column) {
            Err(_) => last.damaged += 1,
            Ok(column) => {
                last.values.extend_from_slice(value.unwrap_or_default());
                last.cells.push((u32::from_be_bytes(column), last.values.len(), ttl.is_some()));
            }
        }
    }
    Ok(rows)
}
