//! The change feed: names that other daemons created and deleted.
//!
//! There is one partition (bucket) per minute, by the servers' clock, so that daemons agree on it whatever their own
//! clocks show. A row holds a list of names, so creating many metrics adds few rows. [`reader`] reads them.

mod reader;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::StoreError;
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use crate::metadata::NameStore;
use crate::schema::CHANGES_BUCKET_SECONDS;

pub(crate) use reader::FeedReader;

/// Maximum number of names in one row of the feed.
const NAMES_PER_ROW: usize = 100;
/// Maximum size of the names in one row of the feed, in bytes. A single longer name gets a row of its own.
const BYTES_PER_ROW: usize = 64 * 1024;

/// A row of the feed: `at`, `deleted`, `names`, `origin`.
type Row = (CqlTimeuuid, Option<bool>, Option<Vec<String>>, Option<Uuid>);

/// The source from which a reader gets the rows of the feed. If `is_last` is set, no row that was
/// acknowledged may be missing.
#[boxed_futures]
trait FeedRows: Send + Sync + std::fmt::Debug {
    /// The rows of a bucket that are later than a time.
    async fn rows_after(
        &self,
        bucket: i64,
        after: CqlTimeuuid,
        is_last: bool,
    ) -> Result<Vec<Row>, StoreError>;

    /// The times of the rows of a bucket that are later than a time, without the names.
    async fn ids_after(
        &self,
        bucket: i64,
        after: CqlTimeuuid,
        is_last: bool,
    ) -> Result<Vec<CqlTimeuuid>, StoreError>;

    /// The row with this time.
    async fn row(&self, bucket: i64, at: CqlTimeuuid, is_last: bool) -> Result<Option<Row>, StoreError>;
}

#[boxed_futures]
impl FeedRows for NameStore {
    async fn rows_after(
        &self,
        bucket: i64,
        after: CqlTimeuuid,
        is_last: bool,
    ) -> Result<Vec<Row>, StoreError> {
        self.rows_at("read changes", self.text.changes(), &(bucket, after), is_last).await
    }

    async fn ids_after(
        &self,
        bucket: i64,
        after: CqlTimeuuid,
        is_last: bool,
    ) -> Result<Vec<CqlTimeuuid>, StoreError> {
        let ids: Vec<(CqlTimeuuid,)> =
            self.rows_at("read changes", self.text.change_ids(), &(bucket, after), is_last).await?;
        Ok(ids.into_iter().map(|(at,)| at).collect())
    }

    async fn row(&self, bucket: i64, at: CqlTimeuuid, is_last: bool) -> Result<Option<Row>, StoreError> {
        let rows = self.rows_at("read a change", self.text.change(), &(bucket, at), is_last).await?;
        Ok(rows.into_iter().next())
    }
}

impl NameStore {
    /// Adds a change to the feed. A failure is only logged: the change itself is done, and other daemons see
    /// it when they next read all names.
    pub(crate) async fn announce(&self, deleted: bool, names: &[&str]) {
        let bucket = self.agreed_clock.now() / CHANGES_BUCKET_SECONDS;
        for row in rows_of(names.iter().copied()) {
            let values = (bucket, deleted, &row, self.origin);
            if let Err(error) = self.run("announce a change", self.text.insert_change(), &values).await {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::debug!(
                    error,
                    names = row.len(),
                    "a change was not announced: other daemons find it when they read all names"
                );
                return;
            }
        }
    }
}

fn rows_of<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Vec<&'a str>> {
    let mut rows: Vec<Vec<&str>> = Vec::new();
    let mut bytes = 0;
    for name in names {
        match rows.last_mut() {
            Some(row) if row.len() < NAMES_PER_ROW && bytes + name.len() <= BYTES_PER_ROW => row.push(name),
            _ => {
                rows.push(vec![name]);
                bytes = 0;
            }
        }
        bytes += name.len();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_feed_are_bounded() {
        let long = "x".repeat(40_000);
        let names = ["a"; 250].into_iter().chain([long.as_str(); 3]);
        let sizes: Vec<usize> = rows_of(names).iter().map(Vec::len).collect();
        assert_eq!(sizes, [100, 100, 51, 1, 1]);
        assert!(rows_of(std::iter::empty()).is_empty());
    }
}
