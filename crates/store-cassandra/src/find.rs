//! Finding names by BigGraphite's SASI indexes, for nodes that keep no index in memory.
//!
//! A glob becomes a few queries ([`plan`]) that may find too much and never too little; the matcher
//! that everything else uses decides on what they give, so both ways of finding have one grammar.

pub mod plan;

use std::collections::BTreeMap;

use futures::StreamExt;
use plumbago_model::Pattern;
use plumbago_store::StoreError;
use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::Mutex;

use crate::metadata::NameStore;
use crate::schema::ddl::{Engine, Server};
use crate::schema::{DIRECTORIES, METRICS};
use crate::store::CassandraStore;
use crate::{error, names};

use plan::Query;

/// Queries of one search in flight.
const CONCURRENCY: usize = 8;
/// How often a query is repeated that the server forgets while it is being asked.
const TRIES: usize = 20;
/// Rows in a page.
const PAGE: i32 = 5000;

/// What a search may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most results.
    pub results_max: usize,
    /// Most rows read, before the matcher has seen them.
    pub rows_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { results_max: 1_000_000, rows_max: 2_000_000 }
    }
}

/// A metric, a directory, or a text that is both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The whole path.
    pub path: String,
    /// A metric has this name.
    pub leaf: bool,
    /// There is something below.
    pub branch: bool,
}

/// Why a search gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The server cannot search so.
    #[error("{0}")]
    NoIndex(String),
    /// More results than [`Limits::results_max`].
    #[error("more than {0} names match (limit of results); narrow the pattern")]
    TooManyResults(usize),
    /// More rows than [`Limits::rows_max`].
    #[error("more than {0} names to look at (limit of visited names); narrow the pattern")]
    TooManyRows(usize),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is being looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Metrics and directories.
    Nodes,
    /// Metrics only.
    Metrics,
}

impl CassandraStore {
    /// The nodes that a glob means, in byte order.
    pub async fn find(&self, pattern: &Pattern, want: Want, limits: Limits) -> Result<Vec<Node>, FindError> {
        let (server, features) = self.features().await?;
        if !features.sasi {
            return Err(FindError::NoIndex(advice(&self.config.metadata_keyspace(), server)));
        }
        let session = self.clusters.names.session()?;
        let components = self.names.limits(true).components;
        let search = Search { store: &self.names, session: &session, pattern, limits };
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

/// What to do where there are no SASI indexes.
pub fn advice(keyspace: &str, server: Server) -> String {
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
    store: &'a NameStore,
    session: &'a Session,
    pattern: &'a Pattern,
    limits: Limits,
}

/// What one table gave so far.
#[derive(Default)]
struct Harvest {
    names: Vec<String>,
    rows: usize,
}

impl Search<'_> {
    async fn table(&self, table: &str, queries: &[Query]) -> Result<Vec<String>, FindError> {
        let harvest = Mutex::new(Harvest::default());
        let runs: Vec<_> = queries.iter().map(|query| self.run(table, query, &harvest)).collect();
        let mut runs = futures::stream::iter(runs).buffer_unordered(CONCURRENCY);
        while let Some(result) = runs.next().await {
            result?;
        }
        drop(runs);
        let mut names = harvest.into_inner().names;
        names.sort_unstable();
        names.dedup();
        if names.len() > self.limits.results_max {
            return Err(FindError::TooManyResults(self.limits.results_max));
        }
        Ok(names)
    }

    /// One page. A server whose cache of prepared statements is full (10 MiB of it with a small heap)
    /// forgets a new one at once, until it was prepared often enough to be kept.
    async fn page(
        &self,
        statement: &PreparedStatement,
        values: &[String],
        state: PagingState,
    ) -> Result<(QueryResult, PagingStateResponse), FindError> {
        let mut tries = 0..TRIES;
        loop {
            self.store.stats.find_requests.add(1);
            match self.session.execute_single_page(statement, values, state.clone()).await {
                Err(error) if error::is_unprepared(&error) && tries.next().is_some() => {}
                result => return Ok(result.map_err(|error| self.store.failed("find names", error))?),
            }
        }
    }

    async fn run(&self, table: &str, query: &Query, harvest: &Mutex<Harvest>) -> Result<(), FindError> {
        let text = query.text(&self.store.config.metadata_keyspace(), table);
        let mut statement = (*self.store.statement(self.session, text, false).await?).clone();
        statement.set_page_size(PAGE);
        let values = query.values();
        let mut state = PagingState::start();
        loop {
            let (page, next) = self.page(&statement, &values, state).await?;
            let page = page.into_rows_result().map_err(|error| error::answer("find names", error))?;
            self.store.stats.find_rows.add(page.rows_num() as u64);
            let rows = page.rows::<(&str,)>().map_err(|error| error::answer("find names", error))?;
            let mut harvest = harvest.lock().await;
            harvest.rows += page.rows_num();
            for row in rows {
                let (name,) = row.map_err(|error| error::answer("find names", error))?;
                if !names::is_tagged(name) && self.pattern.matches(name) {
                    harvest.names.push(name.to_owned());
                }
            }
            if harvest.rows > self.limits.rows_max {
                return Err(FindError::TooManyRows(self.limits.rows_max));
            }
            match next {
                PagingStateResponse::HasMorePages { state: next } => state = next,
                PagingStateResponse::NoMorePages => return Ok(()),
            }
        }
    }
}
