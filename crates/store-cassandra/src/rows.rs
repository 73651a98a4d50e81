//! Reads rows with all their problems, for the jobs that clean the store: metrics (also broken ones) and
//! directories.

use std::collections::{BTreeMap, HashMap, HashSet};

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{
    DirectoryPage, DirectoryStore, ErrorKind, MetricRow, RowPage, RowProblem, RowStore, Share, StoreError,
    directories_above,
};
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use crate::flight;
use crate::metadata::{CONCURRENCY, NameStore, NoMetric, seconds_of};
use crate::names::is_tagged;
use crate::scan::TokenRange;
use crate::schema::{DIRECTORIES, METADATA};
use crate::store::CassandraStore;

/// Maximum number of rows in one page, even if the caller asks for more.
const PAGE_MAX: usize = 20_000;
/// The length from which SASI leaves a value out of the index, in bytes.
const INDEXED_BYTES: usize = 1024;

type Metadata = (
    i64,
    String,
    Option<Uuid>,
    Option<HashMap<String, String>>,
    Option<CqlTimeuuid>,
    Option<CqlTimeuuid>,
    Option<CqlTimeuuid>,
);

/// The tokens of a share that are still to be visited. `position` is the next token, as eight bytes in
/// big-endian order; `None` at the start.
fn rest(share: Share, position: Option<Vec<u8>>) -> Result<TokenRange, StoreError> {
    let whole = TokenRange::of(share);
    let first = match position {
        None => whole.first,
        Some(bytes) => {
            let bytes: Result<[u8; 8], _> = bytes.try_into();
            let wrong = |_| StoreError::new(ErrorKind::Invalid, "continue a scan: the position is not valid");
            i64::from_be_bytes(bytes.map_err(wrong)?)
        }
    };
    Ok(TokenRange { first, ..whole })
}

/// The last token that a page covers: the token of its last row if the page is full, otherwise the end of the
/// range.
fn reach(range: TokenRange, rows: usize, limit: usize, last: Option<i64>) -> i64 {
    if rows >= limit { last.unwrap_or(range.last) } else { range.last }
}

fn next(range: TokenRange, reached: i64) -> Option<Vec<u8>> {
    (reached < range.last).then(|| (reached + 1).to_be_bytes().to_vec())
}

impl NameStore {
    async fn tree(
        &self,
        directories: bool,
        range: TokenRange,
        limit: usize,
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let text = self.text.scan_tree(directories);
        self.rows_at("scan names", text, &(range.first, range.last, limit as i32), true).await
    }

    async fn look_up_row(&self, name: &str) -> Result<Option<MetricRow>, StoreError> {
        if name.is_empty() {
            return Ok(None);
        }
        let listed: Vec<(String,)> =
            self.rows_at("look up a metric", self.text.get_listed(), &(name,), true).await?;
        let metadata = self.fetch_one(name, true).await?;
        Ok(self.row(name.to_owned(), !listed.is_empty(), metadata))
    }

    /// Combines what the two tables have of a metric; `None` if neither has it. Settings that we do
    /// not understand are reported but are not a problem of the row, because they may belong to another program.
    fn row(
        &self,
        name: String,
        listed: bool,
        metadata: Option<crate::metadata::MetadataRow>,
    ) -> Option<MetricRow> {
        let Some((id, config, created_on, updated_on, read_on)) = metadata else {
            let problem = Some(RowProblem::NoMetadata);
            let (updated_on, read_on) = (None, None);
            let row = MetricRow { name, config: None, created_on: 0, updated_on, read_on, problem };
            return listed.then_some(row);
        };
        let judged = self.judge(&name, id, config);
        if let Err(NoMetric::Foreign(why)) = &judged {
            self.damage.report(METADATA, &name, why);
        }
        let problem = match &judged {
            Err(NoMetric::Broken(why)) => Some(RowProblem::Broken((*why).to_owned())),
            _ if !listed && !is_tagged(&name) => Some(RowProblem::NotListed),
            _ => None,
        };
        Some(MetricRow {
            config: judged.ok(),
            created_on: created_on.map_or(0, seconds_of),
            updated_on: updated_on.map(seconds_of),
            read_on: read_on.map(seconds_of),
            problem,
            name,
        })
    }

    /// Whether there is a metric below the directory. Returns `true` if the index cannot tell, so that the
    /// directory is not deleted.
    async fn has_metric_below(&self, directory: &str) -> Result<bool, StoreError> {
        if directory.starts_with('%') || directory.len() + 1 >= INDEXED_BYTES {
            return Ok(true);
        }
        let below = format!("{directory}.%");
        let rows: Vec<(String,)> =
            self.rows_at("look below a directory", self.text.any_below(), &(below,), true).await?;
        Ok(!rows.is_empty())
    }

    /// The directories of `wanted` with a metric below them. Reads all metrics; for servers without SASI.
    async fn directories_in_use(&self, wanted: &[&str]) -> Result<HashSet<String>, StoreError> {
        let wanted: HashSet<&str> = wanted.iter().copied().collect();
        let mut used = HashSet::new();
        let mut range = TokenRange::ALL;
        loop {
            let rows = self.tree(false, range, PAGE_MAX).await?;
            for (_, name) in &rows {
                used.extend(
                    directories_above(name).filter(|above| wanted.contains(above)).map(str::to_owned),
                );
            }
            let reached = reach(range, rows.len(), PAGE_MAX, rows.last().map(|row| row.0));
            if reached >= range.last || used.len() == wanted.len() {
                return Ok(used);
            }
            range.first = reached + 1;
        }
    }
}

#[boxed_futures]
impl RowStore for CassandraStore {
    /// Reads both tables over the same tokens, and returns only those tokens that both pages cover.
    async fn scan_rows(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<RowPage, StoreError> {
        let (names, range, limit) = (&self.names, rest(share, position)?, limit.clamp(1, PAGE_MAX));
        let values = (range.first, range.last, limit as i32);
        let metadata = names.rows_at::<Metadata>("scan metrics", names.text.scan_rows(), &values, true);
        let (metadata, listed) = futures::try_join!(metadata, names.tree(false, range, limit))?;
        let reached = reach(range, metadata.len(), limit, metadata.last().map(|row| row.0)).min(reach(
            range,
            listed.len(),
            limit,
            listed.last().map(|row| row.0),
        ));
        let mut rows: BTreeMap<(i64, String), (bool, Option<_>)> = BTreeMap::new();
        for (token, name) in listed {
            rows.entry((token, name)).or_default().0 = true;
        }
        for (token, name, id, config, created_on, updated_on, read_on) in metadata {
            rows.entry((token, name)).or_default().1 = Some((id, config, created_on, updated_on, read_on));
        }
        let rows = rows.into_iter().filter(|((token, _), _)| *token <= reached);
        let rows = rows.filter_map(|((_, name), (listed, metadata))| names.row(name, listed, metadata));
        Ok(RowPage { rows: rows.collect(), next: next(range, reached) })
    }

    async fn look_up_rows(&self, names: &[&str]) -> Result<Vec<Option<MetricRow>>, StoreError> {
        flight::all(names.len(), CONCURRENCY, |i| self.names.look_up_row(names[i])).await
    }

    async fn delete_rows(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError> {
        let session = self.clusters.names.session().await?;
        let names: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
        let delete = |i: usize| self.names.delete_one(&*session, names[i], Some(as_of_us));
        flight::all(names.len(), CONCURRENCY, delete).await?;
        self.names.remove_marks(&*session, &names, Some(as_of_us)).await?;
        // Rows written after `as_of_us` still exist: do not announce those metrics as deleted.
        let left = self.look_up_rows(&names).await?;
        let gone: Vec<&str> =
            names.iter().zip(left).filter(|(_, row)| row.is_none()).map(|(name, _)| *name).collect();
        self.names.announce(true, &gone).await;
        Ok(())
    }
}

#[boxed_futures]
impl DirectoryStore for CassandraStore {
    async fn scan_directories(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<DirectoryPage, StoreError> {
        let (range, limit) = (rest(share, position)?, limit.clamp(1, PAGE_MAX));
        let rows = self.names.tree(true, range, limit).await?;
        let reached = reach(range, rows.len(), limit, rows.last().map(|row| row.0));
        Ok(DirectoryPage {
            names: rows.into_iter().map(|(_, name)| name).collect(),
            next: next(range, reached),
        })
    }

    async fn have_directories(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        flight::all(names.len(), CONCURRENCY, |i| self.names.has_directory(names[i])).await
    }

    async fn have_metrics_below(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        let (_, features) = self.features().await?;
        if features.parents {
            return flight::all(names.len(), CONCURRENCY, |i| self.names.has_metric_below(names[i])).await;
        }
        let used = self.names.directories_in_use(names).await?;
        Ok(names.iter().map(|name| used.contains(*name)).collect())
    }

    async fn create_directories(&self, names: &[&str]) -> Result<(), StoreError> {
        let session = self.clusters.names.session().await?;
        let limits = self.names.limits(false);
        let storable: Vec<&str> = names.iter().copied().filter(|name| limits.check(name).is_ok()).collect();
        self.names.write_directories(&*session, &storable).await
    }

    async fn delete_directories(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError> {
        let session = self.clusters.names.session().await?;
        let names: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
        let (session, names) = (&*session, &names);
        let delete = async |i: usize| {
            let text = self.names.text.delete(DIRECTORIES);
            self.names.execute_at(session, "delete a directory", text, &(names[i],), Some(as_of_us)).await
        };
        flight::all(names.len(), CONCURRENCY, delete).await.map(|_| ())
    }
}
