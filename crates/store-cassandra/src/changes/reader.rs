//! Reads the change feed, each row once.
//!
//! Rows may arrive late and in any order: clocks differ, and a replica may lag. So a bucket is read in two
//! ways. While rows are written to it, each poll reads the rows that are later than the newest one so far. In
//! addition, until no more rows can arrive, the times of all its rows are read at intervals, followed by the
//! rows that turn out to be new. The last of these reads uses the consistency level of writes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::Clock;
use plumbago_store::{ChangeFeed, Changes, StoreError};
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use super::{FeedRows, Row};
use crate::metadata::{NameStore, seconds_of, time_uuid};
use crate::schema::{CHANGES_BUCKET_SECONDS, CHANGES_TTL_SECONDS};

/// How late a row may arrive, in seconds, including the difference between clocks.
const LATE_SECONDS: i64 = 120;
/// Rows of writers whose clocks differ from ours by up to this many seconds are found by the next poll.
const NEAR_SECONDS: i64 = 10;
/// Interval between two searches for late rows, in seconds.
const SWEEP_SECONDS: i64 = 30;
/// Maximum number of buckets that one poll reads: after a pause, several polls read what was missed.
const BUCKETS_MAX: i64 = 100;
/// Maximum number of late rows of a bucket that are read one by one; more are read with the whole bucket.
const LATE_ROWS_MAX: usize = 32;

/// One reader of the feed.
#[derive(Debug)]
pub(crate) struct FeedReader {
    source: Arc<dyn FeedRows>,
    clock: Arc<dyn Clock>,
    /// The origin of our own rows, which are not returned.
    origin: Uuid,
    /// Rows before this time (seconds since the epoch) are not read.
    from: i64,
    /// Everything before this time (seconds since the epoch) has been returned.
    read_until: i64,
    /// Time of the last search for late rows, in seconds since the epoch.
    swept: Option<i64>,
    /// The first bucket that may get more rows.
    first: i64,
    buckets: BTreeMap<i64, Bucket>,
    /// Rows that were read but not yet returned.
    found: Vec<Row>,
    /// Whether rows were missed because they expired, or looked old, before they were read. Cleared when it
    /// is returned to the caller.
    missed: bool,
    /// When the last poll began, in seconds since the epoch.
    polled: i64,
}

/// What this reader has read of one bucket.
#[derive(Debug, Default)]
struct Bucket {
    /// The time of the latest row.
    newest: Option<CqlTimeuuid>,
    /// The times of all rows.
    seen: HashSet<Uuid>,
}

impl FeedReader {
    /// Reads the changes since a time, in seconds since the epoch.
    pub(crate) fn new(store: Arc<NameStore>, clock: Arc<dyn Clock>, since: i64) -> Self {
        let origin = store.origin;
        Self::over(store, clock, origin, since)
    }

    fn over(source: Arc<dyn FeedRows>, clock: Arc<dyn Clock>, origin: Uuid, since: i64) -> Self {
        let now = clock.now();
        // The clock may have been ahead in the previous process.
        let (missed, since) = (since > now + LATE_SECONDS, since.min(now));
        let from = since - LATE_SECONDS;
        Self {
            source,
            clock,
            origin,
            from,
            read_until: since,
            swept: None,
            first: bucket_of(from),
            buckets: BTreeMap::new(),
            found: Vec::new(),
            missed,
            polled: i64::MIN,
        }
    }

    /// Starts again from now if our clock was far ahead at the last poll. What others wrote meanwhile looked
    /// old and was not read, and what they write now would look old too.
    fn follow_clock(&mut self, now: i64) {
        if now.saturating_add(LATE_SECONDS) < self.polled {
            (self.from, self.read_until, self.swept) = (now - LATE_SECONDS, now, None);
            self.first = bucket_of(self.from);
            self.buckets.clear();
            self.missed = true;
        }
        self.polled = now;
    }

    /// Skips the time for which the feed no longer keeps rows.
    fn skip_expired(&mut self, now: i64) {
        let oldest = now - i64::from(CHANGES_TTL_SECONDS) + LATE_SECONDS;
        if self.read_until < oldest {
            (self.read_until, self.from, self.missed) = (oldest, oldest - LATE_SECONDS, true);
            self.first = self.first.max(bucket_of(self.from));
            self.buckets = self.buckets.split_off(&self.first);
        }
    }

    /// Reads the rows that are later than the newest one so far.
    async fn read_newer(&mut self, bucket: i64, is_last: bool) -> Result<(), StoreError> {
        let after = self.buckets.get(&bucket).and_then(|bucket| bucket.newest);
        let after = after.unwrap_or_else(|| self.start());
        let rows = self.source.rows_after(bucket, after, is_last).await?;
        self.take(bucket, rows);
        Ok(())
    }

    /// Looks for rows that arrived after later ones.
    async fn read_late(&mut self, bucket: i64, is_last: bool) -> Result<(), StoreError> {
        let ids = self.source.ids_after(bucket, self.start(), is_last).await?;
        let known = self.buckets.entry(bucket).or_default();
        let newest = known.newest.map_or(0, order);
        let unseen = ids.into_iter().filter(|at| !known.seen.contains(&uuid(*at)));
        let (newer, late): (Vec<_>, Vec<_>) = unseen.partition(|at| order(*at) > newest);
        if late.len() > LATE_ROWS_MAX {
            let rows = self.source.rows_after(bucket, self.start(), is_last).await?;
            self.take(bucket, rows);
            return Ok(());
        }
        if !newer.is_empty() {
            self.read_newer(bucket, is_last).await?;
        }
        for at in late {
            // The answer may come from another replica that does not have the row yet. In that case the next
            // search finds it.
            let row = self.source.row(bucket, at, is_last).await?;
            self.take(bucket, row.into_iter().collect());
        }
        Ok(())
    }

    fn take(&mut self, bucket: i64, rows: Vec<Row>) {
        let known = self.buckets.entry(bucket).or_default();
        for row in rows {
            if !known.seen.insert(uuid(row.0)) {
                continue;
            }
            if known.newest.is_none_or(|newest| order(newest) < order(row.0)) {
                known.newest = Some(row.0);
            }
            if row.3 != Some(self.origin) {
                self.found.push(row);
            }
        }
    }

    /// Rows before this time are not read.
    fn start(&self) -> CqlTimeuuid {
        time_uuid(u32::try_from(self.from.max(0)).unwrap_or(0))
    }

    /// Takes the names in the rows that were found, in the order of their times; deleted ones with their time.
    fn found(&mut self) -> Vec<(String, Option<i64>)> {
        self.found.sort_unstable_by_key(|row| order(row.0));
        let names = self.found.drain(..).flat_map(|(at, deleted, names, _)| {
            let deleted = (deleted == Some(true)).then(|| i64::from(seconds_of(at)));
            names.unwrap_or_default().into_iter().map(move |name| (name, deleted))
        });
        names.collect()
    }
}

#[boxed_futures]
impl ChangeFeed for FeedReader {
    async fn poll(&mut self) -> Result<Changes, StoreError> {
        let now = self.clock.now();
        self.follow_clock(now);
        self.skip_expired(now);
        // Changes nothing unless our clock went back.
        self.first = self.first.min(bucket_of(now - LATE_SECONDS));
        let newest = bucket_of(now + LATE_SECONDS);
        let last = newest.min(self.first + BUCKETS_MAX - 1);
        let is_due = self.swept.is_none_or(|swept| !(0..SWEEP_SECONDS).contains(&(now - swept)));
        let sweeps = is_due || last < newest;
        let mut closed = self.first;
        for bucket in self.first..=last {
            let is_last = (bucket + 1) * CHANGES_BUCKET_SECONDS + LATE_SECONDS <= now;
            let is_near = (bucket_of(now - NEAR_SECONDS)..=bucket_of(now + NEAR_SECONDS)).contains(&bucket);
            let is_known = self.buckets.contains_key(&bucket);
            if sweeps && is_known {
                self.read_late(bucket, is_last).await?;
            } else if sweeps || is_near {
                self.read_newer(bucket, is_last).await?;
            }
            if sweeps && is_last && closed == bucket {
                closed = bucket + 1;
            }
        }
        self.buckets = self.buckets.split_off(&closed);
        self.first = closed;
        if sweeps {
            self.swept = Some(now);
        }
        self.read_until = if last < newest { now.min(last * CHANGES_BUCKET_SECONDS) } else { now };
        let missed = std::mem::take(&mut self.missed);
        Ok(Changes { names: self.found(), missed, read_until: self.read_until })
    }
}

fn bucket_of(seconds: i64) -> i64 {
    seconds / CHANGES_BUCKET_SECONDS
}

fn uuid(at: CqlTimeuuid) -> Uuid {
    Uuid::from_bytes(*at.as_bytes())
}

/// A sort key for rows: the time of the UUID first, then its random part.
fn order(at: CqlTimeuuid) -> u128 {
    let (low, middle, high, rest) = at.as_fields();
    let ticks = u64::from(high & 0x0fff) << 48 | u64::from(middle) << 32 | u64::from(low);
    u128::from(ticks) << 64 | u128::from(u64::from_be_bytes(*rest))
}

#[cfg(test)]
mod tests;
