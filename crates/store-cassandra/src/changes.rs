//! The change feed: names that other daemons created and deleted.
//!
//! There is one partition per minute. A row holds a list of names, so creating many metrics adds few
//! rows. Rows may arrive out of order. A reader therefore reads the partitions of the last minutes again
//! each time, and remembers which rows it has seen.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_store::{ChangeFeed, Changes, StoreError};
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use crate::metadata::{NameStore, seconds_of, time_uuid};
use crate::schema::{CHANGES_BUCKET_SECONDS, CHANGES_TTL_SECONDS};

/// Most names in one row of the feed.
const NAMES_PER_ROW: usize = 100;
/// Most bytes of names in one row of the feed, except for a row with a single name.
const BYTES_PER_ROW: usize = 64 * 1024;
/// How late a row may arrive, in seconds, including the difference between clocks.
const LATE_SECONDS: i64 = 120;

/// One reader of the feed.
#[derive(Debug)]
pub(crate) struct FeedReader {
    store: Arc<NameStore>,
    /// Everything before this time (seconds since the epoch) has been read.
    read_until: i64,
    /// Rows that were read, by the UUID in `at`, each with its time in seconds since the epoch.
    seen: HashMap<Uuid, i64>,
}

type Row = (CqlTimeuuid, Option<bool>, Option<Vec<String>>, Option<Uuid>);

impl FeedReader {
    /// Reads changes from now on.
    pub(crate) fn new(store: Arc<NameStore>) -> Self {
        let read_until = store.clock.now();
        Self { store, read_until, seen: HashMap::new() }
    }
}

#[async_trait]
impl ChangeFeed for FeedReader {
    async fn poll(&mut self) -> Result<Changes, StoreError> {
        let now = self.store.clock.now();
        let mut changes = Changes::default();
        let oldest = now - i64::from(CHANGES_TTL_SECONDS) + LATE_SECONDS;
        changes.missed = self.read_until < oldest;
        let from = self.read_until.max(oldest) - LATE_SECONDS;
        let mut rows: Vec<(u128, Row)> = Vec::new();
        for bucket in from / CHANGES_BUCKET_SECONDS..=(now + LATE_SECONDS) / CHANGES_BUCKET_SECONDS {
            let after = time_uuid(u32::try_from(from.max(0)).unwrap_or(0));
            let found: Vec<Row> =
                self.store.rows("read changes", self.store.text.changes(), (bucket, after)).await?;
            rows.extend(found.into_iter().map(|row| (order(row.0), row)));
        }
        rows.sort_unstable_by_key(|(order, _)| *order);
        for (_, (at, deleted, names, origin)) in rows {
            let id = Uuid::from_bytes(*at.as_bytes());
            if self.seen.insert(id, i64::from(seconds_of(at))).is_some() || origin == Some(self.store.origin)
            {
                continue;
            }
            let deleted = deleted.unwrap_or(false);
            changes.names.extend(names.unwrap_or_default().into_iter().map(|name| (name, deleted)));
        }
        self.read_until = now;
        self.seen.retain(|_, second| *second >= now - 3 * LATE_SECONDS);
        Ok(changes)
    }
}

/// A sort key for rows: the time of the UUID first, then its random part.
fn order(at: CqlTimeuuid) -> u128 {
    let (low, middle, high, rest) = at.as_fields();
    let ticks = u64::from(high & 0x0fff) << 48 | u64::from(middle) << 32 | u64::from(low);
    u128::from(ticks) << 64 | u128::from(u64::from_be_bytes(*rest))
}

impl NameStore {
    /// Adds a change to the feed. A failure is only logged: the change itself is done, and other daemons see
    /// it when they next read all names.
    pub(crate) async fn announce(&self, deleted: bool, names: &[&str]) {
        let bucket = self.clock.now() / CHANGES_BUCKET_SECONDS;
        for row in rows_of(names.iter().copied()) {
            let values = (bucket, deleted, &row, self.origin);
            if let Err(error) = self.run("announce a change", self.text.insert_change(), values).await {
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

    #[test]
    fn later_is_greater() {
        let (early, late) = (time_uuid(1_700_000_000), time_uuid(1_700_000_001));
        assert!(order(early) < order(late));
    }
}
