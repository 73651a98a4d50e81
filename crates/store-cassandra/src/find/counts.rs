//! How many rows terms have, by a few of them: those at the start of the token ring lie as close to each
//! other there as anywhere. Known for terms of queries that were slow, so that they are asked better when
//! they come again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbago_store::StoreError;
use scylla::client::session::Session;

use super::cost;
use super::plan::{Query, Term};
use crate::error;
use crate::metadata::NameStore;

/// Rows looked at for one number.
const SAMPLE: usize = 512;
/// How long a number holds.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// How many are kept; beyond that all are forgotten.
const KEPT_MAX: usize = 10_000;
/// Terms counted after one search at most.
const TERMS_MAX: usize = 64;

/// A query on a table of which the rows are counted.
type Key = (&'static str, Query);

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    known: Mutex<HashMap<Key, (Instant, f64)>>,
    /// Held while counting: one at a time.
    counting: Arc<tokio::sync::Mutex<()>>,
}

impl Counts {
    /// The query as it is answered fastest, as far as that is known.
    pub(super) fn improve(&self, table: &'static str, query: &Query) -> Option<Query> {
        let Query::Terms(terms) = query else { return None };
        let all = self.get(&(table, Query::All))?;
        let count = |term: &Term| self.get(&(table, Query::terms(vec![term.clone()])));
        cost::choose(terms.every(), count, all).map(Query::terms)
    }

    fn get(&self, key: &Key) -> Option<f64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(at, _)| at.elapsed() < KEPT_FOR).map(|(_, rows)| *rows)
    }

    fn put(&self, key: Key, rows: f64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT_MAX {
            known.clear();
        }
        known.insert(key, (Instant::now(), rows));
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
}

impl NameStore {
    /// Counts what is not known yet of these queries, in the background.
    pub(super) fn count_terms(self: &Arc<Self>, table: &'static str, queries: &[Query]) {
        let Ok(turn) = self.counts.counting.clone().try_lock_owned() else { return };
        let keys = self.counts.unknown(table, queries);
        if keys.is_empty() {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            let _turn = turn;
            for key in keys {
                // It is a help only; the next slow search tries again.
                let Ok(rows) = store.count(&key).await else { return };
                store.counts.put(key, rows);
                store.stats.find_counted.add(1);
            }
        });
    }

    async fn count(&self, (table, query): &Key) -> Result<f64, StoreError> {
        let session = self.cluster.session().await?;
        let text = query.sample(&self.config.metadata_keyspace(), table, SAMPLE);
        let tokens = self.tokens(&session, text, query.values()).await?;
        let last = tokens.last().filter(|_| tokens.len() >= SAMPLE);
        let Some(last) = last else { return Ok(tokens.len() as f64) };
        let part = (*last as f64 - i64::MIN as f64) / 2f64.powi(64);
        Ok(tokens.len() as f64 / part.max(f64::MIN_POSITIVE))
    }

    async fn tokens(
        &self,
        session: &Session,
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
