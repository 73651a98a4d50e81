//! Imports the points of a keyspace: all of them in the order of the token ring, or the requested ones by
//! means of the indexes.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use futures::future::join_all;
use plumbago_kairosdb::history::Entry;
use plumbago_kairosdb::table::{Cell, RowKey, TimeUnit};
use plumbago_store::{KairosCells, KairosPage, KairosTables, KairosUnit, Share, StoreError};
use xxhash_rust::xxh3::xxh3_64;

use super::scratch::Position;
use super::split::Splitter;
use crate::drive::insist;
use crate::job::JobError;
use crate::kairosdb::ImportKairosdb;
use crate::verb::{Verb as _, VerbError};

/// Number of parts of the token ring.
const PARTS: u32 = 1024;
/// How much earlier than its points a row may begin, in milliseconds: three weeks, which is KairosDB's row
/// width.
const WIDTH_MS: i64 = 21 * 86_400_000;

/// Imports the rest of a keyspace.
///
/// # Errors
///
/// If the servers do not answer, the scratch directory cannot be written, or the run is cancelled.
pub(super) async fn take(
    splitter: &mut Splitter,
    tables: Arc<dyn KairosTables>,
    plan: &ImportKairosdb,
) -> Result<(), VerbError> {
    splitter.work.progress.begin("reading the keyspace: points", None);
    let unit = match tables.unit().await? {
        KairosUnit::Legacy => TimeUnit::Legacy,
        KairosUnit::Milliseconds => TimeUnit::Milliseconds,
        KairosUnit::Seconds => TimeUnit::Seconds,
    };
    let mut reader = Reader { tables, unit, splitter, workers: plan.workers, listed: None };
    match plan.metrics.is_empty() && plan.from.is_none() && plan.until.is_none() {
        true => reader.all(plan.dry_run).await,
        false => reader.by_index(plan).await,
    }
}

struct Reader<'a> {
    tables: Arc<dyn KairosTables>,
    unit: TimeUnit,
    splitter: &'a mut Splitter,
    workers: usize,
    /// Hashes of the rows that an index lists, if rows are compared with the indexes.
    listed: Option<HashSet<u64>>,
}

/// A source that is read page by page.
#[derive(Clone)]
enum Source {
    Ring(Share),
    Row(Vec<u8>),
}

/// A source that is being read.
struct Stream {
    source: Source,
    position: Option<Vec<u8>>,
    /// The row of the last cell.
    last: Vec<u8>,
    is_done: bool,
}

/// A page, decoded: each piece of a row with its key.
type Decoded = Vec<(Vec<u8>, u64, Result<Entry, String>)>;

impl Reader<'_> {
    /// Reads the whole keyspace. `compares` says whether to compare the rows with the indexes.
    async fn all(&mut self, compares: bool) -> Result<(), VerbError> {
        if compares {
            self.listed = Some(self.listed().await?);
        }
        let mut part = self.splitter.position().source as u32;
        while part < PARTS {
            let until = PARTS.min(part + self.workers as u32);
            let shares = (part..until).map(|index| Share { index, of: PARTS });
            self.read(shares.map(Source::Ring).collect()).await?;
            part = until;
            if self.splitter.is_checkpoint_due() || part == PARTS {
                self.splitter.checkpoint(Position { source: part as usize, done: 0 })?;
            }
        }
        if let Some(listed) = &self.listed {
            let report = self.splitter.report();
            report.listed_rows = listed.len() as u64;
            report.empty_rows = report.listed_rows.saturating_sub(report.rows - report.unlisted_rows);
        }
        Ok(())
    }

    /// Hashes of all rows that the indexes list.
    async fn listed(&self) -> Result<HashSet<u64>, VerbError> {
        let mut listed = HashSet::new();
        for metric in self.tables.metrics().await? {
            self.splitter.work.go_on()?;
            listed.extend(self.keys(&metric, i64::MIN, i64::MAX).await?.iter().map(|key| xxh3_64(key)));
        }
        Ok(listed)
    }

    /// Reads the rows of some metrics in a time range.
    async fn by_index(&mut self, plan: &ImportKairosdb) -> Result<(), VerbError> {
        let metrics = match plan.metrics.as_slice() {
            [] => self.tables.metrics().await?,
            metrics => metrics.to_vec(),
        };
        let from = plan.from.map_or(i64::MIN, |from| from.saturating_mul(1000).saturating_sub(WIDTH_MS));
        let until = plan.until.map_or(i64::MAX, |until| until.saturating_mul(1000));
        let done = self.splitter.position().source;
        for (at, metric) in metrics.iter().enumerate().skip(done) {
            let keys: Vec<Vec<u8>> = self.keys(metric, from, until).await?.into_iter().collect();
            self.splitter.report().listed_rows += keys.len() as u64;
            for some in keys.chunks(self.workers) {
                self.read(some.iter().cloned().map(Source::Row).collect()).await?;
            }
            if self.splitter.is_checkpoint_due() {
                self.splitter.checkpoint(Position { source: at + 1, done: 0 })?;
            }
        }
        let report = self.splitter.report();
        report.empty_rows = report.listed_rows.saturating_sub(report.rows);
        Ok(())
    }

    /// The keys of the rows of a metric that begin in a time range, from both generations of indexes.
    async fn keys(&self, metric: &str, from: i64, until: i64) -> Result<BTreeSet<Vec<u8>>, VerbError> {
        let is_wanted = |time: i64| (from..=until).contains(&time);
        let mut keys = BTreeSet::new();
        for row_time_ms in rows_within(self.tables.row_times(metric).await?, from, until) {
            for (kind, tags) in self.tables.listed(metric, row_time_ms).await? {
                keys.insert(RowKey { metric: metric.to_owned(), row_time_ms, kind, tags }.bytes());
            }
        }
        let before = self.tables.listed_before(metric).await?;
        // A key that cannot be read is requested, so that it is reported.
        let is_asked_for = |key: &Vec<u8>| RowKey::read(key).map_or(true, |key| is_wanted(key.row_time_ms));
        keys.extend(before.into_iter().filter(is_asked_for));
        Ok(keys)
    }

    /// Reads some sources side by side, page by page.
    async fn read(&mut self, sources: Vec<Source>) -> Result<(), VerbError> {
        let stream = |source| Stream { source, position: None, last: Vec::new(), is_done: false };
        let mut streams: Vec<Stream> = sources.into_iter().map(stream).collect();
        while !streams.is_empty() {
            self.splitter.work.go_on()?;
            let pages = join_all(streams.iter().map(|stream| {
                let (tables, unit) = (Arc::clone(&self.tables), self.unit);
                let (source, position) = (stream.source.clone(), stream.position.clone());
                let context = self.splitter.work.context.clone();
                tokio::spawn(async move {
                    let asked = || page(&*tables, &source, position.clone());
                    let KairosPage { rows, next } = insist!(ImportKairosdb::NAME, &context, false, asked())?;
                    Ok::<_, JobError>((decode(unit, rows), next))
                })
            }))
            .await;
            for (stream, page) in streams.iter_mut().zip(pages) {
                let (rows, next) = page.map_err(|error| VerbError::Failed(error.to_string()))??;
                (stream.is_done, stream.position) = (next.is_none(), next);
                for row in rows {
                    take_row(self.splitter, self.listed.as_ref(), stream, row)?;
                }
            }
            streams.retain(|stream| !stream.is_done);
        }
        Ok(())
    }
}

/// The start times of the rows that begin in a range, and of the last row before it. A keyspace of version
/// 1.3 may have rows that are longer than [`WIDTH_MS`], so that row may have points in the range.
fn rows_within(times: Vec<i64>, from: i64, until: i64) -> Vec<i64> {
    let before = times.iter().copied().filter(|time| *time < from).max();
    times.into_iter().filter(|time| Some(*time) == before || (from..=until).contains(time)).collect()
}

fn take_row(
    splitter: &mut Splitter,
    listed: Option<&HashSet<u64>>,
    stream: &mut Stream,
    (key, damaged, entry): (Vec<u8>, u64, Result<Entry, String>),
) -> Result<(), VerbError> {
    // A row that continues from the previous page counts once.
    let is_new = stream.last != key;
    splitter.report().rows += u64::from(is_new);
    let is_unlisted = is_new && listed.is_some_and(|listed| !listed.contains(&xxh3_64(&key)));
    if damaged > 0 {
        let why = format!("{damaged} cells whose column name does not have four bytes");
        splitter.skip("unreadable_cells", &shown(&key), &why)?;
    }
    match entry {
        Ok(entry) => splitter.take(entry, is_unlisted)?,
        Err(why) if is_new => splitter.skip("unreadable_row", &shown(&key), &why)?,
        Err(_) => {}
    }
    stream.last = key;
    Ok(())
}

async fn page(
    tables: &dyn KairosTables,
    source: &Source,
    position: Option<Vec<u8>>,
) -> Result<KairosPage, StoreError> {
    match source {
        Source::Ring(share) => tables.scan(*share, position).await,
        Source::Row(key) => tables.row(key, position).await,
    }
}

fn decode(unit: TimeUnit, rows: Vec<KairosCells>) -> Decoded {
    let row = |row: KairosCells| {
        let mut from = 0;
        let cells = row.cells.iter().map(|(column, end, has_ttl)| {
            let value = &row.values[std::mem::replace(&mut from, *end)..*end];
            Cell { column: *column, value, has_ttl: *has_ttl }
        });
        let mut entry = Entry::default();
        let read = match RowKey::read(&row.key) {
            Ok(key) => key.read_cells(unit, cells, &mut entry).map(|()| entry),
            Err(why) => Err(why.to_owned()),
        };
        (row.key, row.damaged, read)
    };
    rows.into_iter().map(row).collect()
}

/// The beginning of a key, for messages.
fn shown(key: &[u8]) -> String {
    let text: String = key.escape_ascii().take(200).map(char::from).collect();
    format!("row {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_before_a_range_is_read_too() {
        let times = || vec![-50, 0, 100, 200, 300];
        assert_eq!(rows_within(times(), 150, 250), [100, 200]);
        assert_eq!(rows_within(times(), 100, 300), [0, 100, 200, 300]);
        assert_eq!(rows_within(times(), 5000, 6000), [300]);
        assert_eq!(rows_within(times(), -60, -1), [-50]);
        assert_eq!(rows_within(times(), i64::MIN, i64::MAX), times());
        assert_eq!(rows_within(Vec::new(), 0, 1), Vec::<i64>::new());
    }
}
