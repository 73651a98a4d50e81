//! Finds names with BigGraphite's SASI indexes, for daemons that keep no index in memory.
//!
//! A glob becomes a few queries ([`plan`]) that may return names which do not match, but never miss one
//! that does. The glob matcher of the in-memory index then filters the rows, so that both ways of finding
//! agree on what a glob means. After a slow search, the rows of its terms are counted, so that the next
//! search can choose better terms ([`counts`]).

mod cost;
mod counts;
pub mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use plumbago_model::Pattern;
use plumbago_store::StoreError;
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;
use tokio::sync::Mutex;

use crate::driver::Session;
use crate::metadata::NameStore;
use crate::scan::TokenRange;
use crate::schema::ddl::{Engine, Server};
use crate::schema::{DIRECTORIES, METRICS};
use crate::{error, names};

use counts::Counts;
use plan::Query;

/// Maximum number of queries that one search has in flight.
const CONCURRENCY: usize = 8;
/// Number of rows in every page but the first.
const PAGE: i32 = 5000;
/// Rows in the first page of a query. Most searches need no more. For the others the server would read the
/// rest row by row on one core, so we read several parts of the token ring at once.
const FIRST_PAGE: i32 = 128;
/// Maximum number of parts of the token ring that one query reads at once.
const PARTS_MAX: usize = 4;

/// Limits of one search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of results.
    pub results_max: usize,
    /// Maximum number of rows read from one table, whether they match or not.
    pub rows_max: usize,
    /// After a search that took at least this long, the rows of its terms are counted, so that the next
    /// search can choose better terms.
    pub count_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { results_max: 1_000_000, rows_max: 2_000_000, count_after: Duration::from_millis(5) }
    }
}

/// A path that is a metric, a directory, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The full path; its components are separated by dots.
    pub path: String,
    /// Whether the path is the name of a metric.
    pub leaf: bool,
    /// Whether the path is a directory.
    pub branch: bool,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The server has no SASI indexes; holds the advice for the operator.
    #[error("{0}")]
    NoIndex(String),
    /// There are more results than [`Limits::results_max`]; holds that limit.
    #[error("more than {0} names match (limit of results); narrow the pattern")]
    TooManyResults(usize),
    /// More rows were read than [`Limits::rows_max`]; holds that limit.
    #[error("the search would read more than {0} names (limit of visited names); narrow the pattern")]
    TooManyRows(usize),
    /// A request to the server failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a search looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Metrics and directories.
    Nodes,
    /// Metrics only.
    Metrics,
}

/// Searches in the tables for names.
#[derive(Debug)]
pub(crate) struct Finder {
    store: Arc<NameStore>,
    counts: Arc<Counts>,
}

impl Finder {
    pub(crate) fn new(store: Arc<NameStore>) -> Self {
        Self { store, counts: Arc::default() }
    }

    /// The nodes that match a glob, in byte order of their paths. Needs SASI indexes.
    pub(crate) async fn find(
        &self,
        pattern: &Pattern,
        want: Want,
        limits: Limits,
    ) -> Result<Vec<Node>, FindError> {
        let session = self.store.cluster.session().await?;
        let components = self.store.limits(true).components;
        let search = Search { store: &self.store, counts: &self.counts, session: &*session, pattern, limits };
        let queries = plan::plan(pattern, components);
        let metrics = search.table(METRICS, &queries);
        if want == Want::Metrics {
            return Ok(merge(metrics.await?, Vec::new()));
        }
        let (metrics, directories) = futures::try_join!(metrics, search.table(DIRECTORIES, &queries))?;
        let nodes = merge(metrics, directories);
        if nodes.len() > limits.results_max {
            return Err(FindError::TooManyResults(limits.results_max));
        }
        Ok(nodes)
    }
}

fn merge(metrics: Vec<String>, directories: Vec<String>) -> Vec<Node> {
    let mut all: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    metrics.into_iter().for_each(|name| all.entry(name).or_default().0 = true);
    directories.into_iter().for_each(|name| all.entry(name).or_default().1 = true);
    all.into_iter().map(|(path, (leaf, branch))| Node { path, leaf, branch }).collect()
}

/// What an operator can do about missing SASI indexes.
pub(crate) fn advice(keyspace: &str, server: Server) -> String {
    match server.engine {
        Engine::Scylla => "ScyllaDB has no SASI indexes; set index.mode = \"memory\"".to_owned(),
        Engine::Cassandra => format!(
            "{keyspace} has no SASI indexes on all components; set `{}` in cassandra.yaml of every node and \
             run `plumbago syncdb`, or set index.mode = \"memory\"",
            server.sasi_setting(),
        ),
    }
}

struct Search<'a> {
    store: &'a Arc<NameStore>,
    counts: &'a Arc<Counts>,
    session: &'a dyn Session,
    pattern: &'a Pattern,
    limits: Limits,
}

/// What a search has found in one table so far.
#[derive(Default)]
struct Harvest {
    names: Vec<String>,
    rows: usize,
}

impl Search<'_> {
    async fn table(&self, table: &'static str, queries: &[Query]) -> Result<Vec<String>, FindError> {
        let begun = Instant::now();
        let harvest = Mutex::new(Harvest::default());
        let parts = (CONCURRENCY / queries.len().max(1)).clamp(1, PARTS_MAX) as u32;
        let runs: Vec<_> = queries.iter().map(|query| self.run(table, query, parts, &harvest)).collect();
        let mut runs = futures::stream::iter(runs).buffer_unordered(CONCURRENCY);
        while let Some(result) = runs.next().await {
            result?;
        }
        drop(runs);
        if begun.elapsed() >= self.limits.count_after {
            self.counts.count_terms(self.store, table, queries);
        }
        let mut names = harvest.into_inner().names;
        names.sort_unstable();
        names.dedup();
        if names.len() > self.limits.results_max {
            return Err(FindError::TooManyResults(self.limits.results_max));
        }
        Ok(names)
    }

    /// Runs one query: reads a small first page, then the rest of the token ring in parts.
    async fn run(
        &self,
        table: &'static str,
        query: &Query,
        parts: u32,
        harvest: &Mutex<Harvest>,
    ) -> Result<(), FindError> {
        let improved = self.counts.improve(table, query);
        let query = improved.as_ref().unwrap_or(query);
        let text = query.text(&self.store.config.metadata_keyspace(), table);
        let mut statement = (*self.store.statement(self.session, text, false).await?).clone();
        statement.set_page_size(FIRST_PAGE);
        let ask = Ask { statement: &statement, query, range: TokenRange::ALL };
        let Some(last) = self.pages(&ask, harvest, true).await? else { return Ok(()) };
        let Some(rest) = TokenRange::behind(last) else { return Ok(()) };
        let mut statement = statement.clone();
        statement.set_page_size(PAGE);
        let asks: Vec<Ask<'_>> =
            rest.parts(parts).into_iter().map(|range| Ask { statement: &statement, query, range }).collect();
        futures::future::try_join_all(asks.iter().map(|ask| self.pages(ask, harvest, false))).await?;
        Ok(())
    }

    /// Reads page after page. With `only_first` it stops after the first page that has rows, and returns the
    /// token of its last row if there are more pages.
    async fn pages(
        &self,
        ask: &Ask<'_>,
        harvest: &Mutex<Harvest>,
        only_first: bool,
    ) -> Result<Option<i64>, FindError> {
        let mut state = PagingState::start();
        loop {
            let (page, next) = self.page(ask, state).await?;
            let last = self.take_page(page, harvest).await?;
            match next {
                PagingStateResponse::NoMorePages => return Ok(None),
                PagingStateResponse::HasMorePages { .. } if only_first && last.is_some() => return Ok(last),
                PagingStateResponse::HasMorePages { state: next } => state = next,
            }
        }
    }

    /// Keeps the names of a page that match. Returns the token of its last row.
    async fn take_page(&self, page: QueryResult, harvest: &Mutex<Harvest>) -> Result<Option<i64>, FindError> {
        let page = page.into_rows_result().map_err(|error| error::answer("find names", error))?;
        self.store.stats.find_rows.add(page.rows_num() as u64);
        let rows = page.rows::<(&str, i64)>().map_err(|error| error::answer("find names", error))?;
        let mut harvest = harvest.lock().await;
        harvest.rows += page.rows_num();
        let mut last = None;
        for row in rows {
            let (name, token) = row.map_err(|error| error::answer("find names", error))?;
            last = Some(token);
            if !names::is_tagged(name) && self.pattern.matches(name) {
                harvest.names.push(name.to_owned());
            }
        }
        if harvest.rows > self.limits.rows_max {
            return Err(FindError::TooManyRows(self.limits.rows_max));
        }
        Ok(last)
    }

    async fn page(
        &self,
        ask: &Ask<'_>,
        state: PagingState,
    ) -> Result<(QueryResult, PagingStateResponse), FindError> {
        self.store.stats.find_requests.add(1);
        let page = self.session.execute_single_page(ask.statement, &ask.values(), state).await;
        Ok(page.map_err(|error| self.store.failed("find names", error))?)
    }
}

/// A query on a part of the token ring.
struct Ask<'a> {
    statement: &'a PreparedStatement,
    query: &'a Query,
    range: TokenRange,
}

impl Ask<'_> {
    fn values(&self) -> Vec<CqlValue> {
        let mut values: Vec<CqlValue> = self.query.values().into_iter().map(CqlValue::Text).collect();
        if !matches!(self.query, Query::Name(_)) {
            values.extend([self.range.first, self.range.last].map(CqlValue::BigInt));
        }
        values
    }
}
