//! Estimates how many rows match each term of slow queries, so that better terms can be chosen the next
//! time. An estimate reads the first few rows in token order: tokens are evenly distributed, so the distance
//! between these rows tells how many there are in the whole ring.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use plumbago_store::StoreError;

use super::cost;
use super::plan::{Query, Term};
use crate::driver::Session;
use crate::error;
use crate::metadata::NameStore;

/// Maximum number of rows read for one estimate.
const SAMPLE: usize = 512;
/// How long an estimate stays valid.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// Maximum number of estimates that are kept. When it is exceeded, all are dropped.
const KEPT_MAX: usize = 10_000;
/// Maximum number of terms that are counted after one search.
const TERMS_MAX: usize = 64;

/// The table and the query whose rows are counted.
type Key = (&'static str, Query);

/// The estimated numbers of rows.
#[derive(Debug, Default)]
pub(super) struct Counts {
    known: DashMap<Key, (Instant, f64)>,
    /// Held by the task that counts, so that only one runs at a time.
    counting: Arc<tokio::sync::Mutex<()>>,
}

impl Counts {
    /// An equivalent query with the terms that are expected to be cheapest; `None` if their rows have not
    /// all been counted.
    pub(super) fn improve(&self, table: &'static str, query: &Query) -> Option<Query> {
        let Query::Terms(terms) = query else { return None };
        let all = self.get(&(table, Query::All))?;
        let count = |term: &Term| self.get(&(table, Query::terms(vec![term.clone()])));
        cost::choose(terms.every(), count, all).map(Query::terms)
    }

    fn get(&self, key: &Key) -> Option<f64> {
        self.known.get(key).filter(|known| known.0.elapsed() < KEPT_FOR).map(|known| known.1)
    }

    fn put(&self, key: Key, rows: f64) {
        if self.known.len() >= KEPT_MAX {
            self.known.clear();
        }
        self.known.insert(key, (Instant::now(), rows));
    }

    fn unknown(&self, table: &'static str, queries: &[Query]) -> Vec<Key> {
        let mut keys = vec![(table, Query::All)];
        for query in queries {
            let Query::Terms(terms) = query else { continue };
            keys.extend(terms.every().map(|term| (table, Query::terms(vec![term.clone()]))));
        }
        keys.sort();
        keys.dedup();
        keys.retain(|key| self.get(key).is_none());
        keys.truncate(TERMS_MAX);
        keys
    }

    /// Counts in the background the rows of terms of these queries that are not known yet. Does nothing if
    /// another count is in progress.
    pub(super) fn count_terms(
        self: &Arc<Self>,
        store: &Arc<NameStore>,
        table: &'static str,
        queries: &[Query],
    ) {
        let Ok(turn) = self.counting.clone().try_lock_owned() else { return };
        let keys = self.unknown(table, queries);
        if keys.is_empty() {
            return;
        }
        let (counts, store) = (self.clone(), store.clone());
        tokio::spawn(async move {
            let _turn = turn;
            for key in keys {
                // A failure does no harm: the next slow search tries again.
                let Ok(rows) = store.count(&key).await else { return };
                counts.put(key, rows);
                store.stats.find_counted.add(1);
            }
        });
    }
}

impl NameStore {
    /// Estimates how many rows a query has, from the tokens of its first rows.
    async fn count(&self, (table, query): &Key) -> Result<f64, StoreError> {
        let session = self.cluster.session().await?;
        let text = query.sample(&self.config.metadata_keyspace(), table, SAMPLE);
        let tokens = self.tokens(&*session, text, query.values()).await?;
        let last = tokens.last().filter(|_| tokens.len() >= SAMPLE);
        let Some(last) = last else { return Ok(tokens.len() as f64) };
        let part = (*last as f64 - i64::MIN as f64) / 2f64.powi(64);
        Ok(tokens.len() as f64 / part.max(f64::MIN_POSITIVE))
    }

    async fn tokens(
        &self,
        session: &dyn Session,
        text: String,
        values: Vec<String>,
    ) -> Result<Vec<i64>, StoreError> {
        let statement = self.statement(session, text, false).await?;
        self.stats.find_requests.add(1);
        let rows = session.execute_unpaged(&statement, &values).await;
        let rows = rows.map_err(|error| self.failed("count names", error))?;
        let rows = rows.into_rows_result().map_err(|error| error::answer("count names", error))?;
        let tokens = rows.rows::<(i64,)>().map_err(|error| error::answer("count names", error))?;
        tokens.map(|row| row.map(|(token,)| token).map_err(|e| error::answer("count names", e))).collect()
    }
}
