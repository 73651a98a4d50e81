//! The rows of metrics and directories. As in Cassandra's tables, creating a metric creates the directories
//! above it, and deleting it leaves them.

use std::ops::Bound;

use plumbago_boxed_futures::boxed_futures;

use super::{Inner, MemoryStore};
use crate::{
    DirectoryPage, DirectoryStore, MetricMeta, MetricRow, RowPage, RowProblem, RowStore, Share, StoreError,
    directories_above,
};

impl MemoryStore {
    /// Sets the write time of later rows, in microseconds since the epoch. It is 0 until the first call.
    pub fn set_time_us(&self, now_us: i64) {
        self.lock().now_us = now_us;
    }

    /// Records that a metric was written at `updated_on` (seconds since the epoch).
    pub fn touch(&self, name: &str, updated_on: u32) {
        self.lock().updated.insert(name.to_owned(), updated_on);
    }

    /// Creates incomplete or damaged rows of a metric, without directories, as an interrupted creation would
    /// leave them.
    pub fn put_problem(&self, name: &str, problem: RowProblem) {
        let mut inner = self.lock();
        let now_us = inner.now_us;
        inner.problems.insert(name.to_owned(), problem);
        inner.written_us.insert(name.to_owned(), now_us);
    }
}

impl Inner {
    pub(super) fn create_rows(&mut self, metric: &MetricMeta) {
        self.problems.remove(&metric.name);
        self.written_us.insert(metric.name.clone(), self.now_us);
        for directory in directories_above(&metric.name) {
            self.directories.insert(directory.to_owned(), self.now_us);
        }
    }

    fn row(&self, name: &str) -> Option<MetricRow> {
        let meta = self.metrics.get(name);
        let problem = self.problems.get(name);
        (meta.is_some() || problem.is_some()).then(|| MetricRow {
            name: name.to_owned(),
            config: meta.map(|meta| meta.config.clone()),
            created_on: meta.map_or(0, |meta| meta.created_on),
            updated_on: self.updated.get(name).copied(),
            read_on: None,
            problem: problem.cloned(),
        })
    }
}

fn is_in(share: Share, name: &str) -> bool {
    let place = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17)
    });
    let (from, to) = share.bounds();
    (from..=to).contains(&place)
}

/// The first `limit` names that belong to the share, and the position of the next page.
fn page<'a>(
    names: impl Iterator<Item = &'a String>,
    share: Share,
    limit: usize,
) -> (Vec<String>, Option<Vec<u8>>) {
    let mut names = names.filter(|name| is_in(share, name)).peekable();
    let found: Vec<String> = names.by_ref().take(limit.max(1)).cloned().collect();
    let next = names.peek().and(found.last()).map(|name| name.as_bytes().to_vec());
    (found, next)
}

fn behind(position: Option<Vec<u8>>) -> (Bound<String>, Bound<String>) {
    let start = position.map_or(Bound::Unbounded, |at| Bound::Excluded(String::from_utf8_lossy(&at).into()));
    (start, Bound::Unbounded)
}

#[boxed_futures]
impl RowStore for MemoryStore {
    async fn scan_rows(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<RowPage, StoreError> {
        let inner = self.lock();
        let (names, next) =
            page(inner.written_us.range(behind(position)).map(|(name, _)| name), share, limit);
        Ok(RowPage { rows: names.iter().filter_map(|name| inner.row(name)).collect(), next })
    }

    async fn look_up_rows(&self, names: &[&str]) -> Result<Vec<Option<MetricRow>>, StoreError> {
        let inner = self.lock();
        Ok(names.iter().map(|name| inner.row(name)).collect())
    }

    async fn delete_rows(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError> {
        let mut inner = self.lock();
        for name in names {
            if inner.written_us.get(*name).is_some_and(|written| *written <= as_of_us) {
                inner.forget(name);
            }
        }
        Ok(())
    }
}

#[boxed_futures]
impl DirectoryStore for MemoryStore {
    async fn scan_directories(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<DirectoryPage, StoreError> {
        let inner = self.lock();
        let (names, next) =
            page(inner.directories.range(behind(position)).map(|(name, _)| name), share, limit);
        Ok(DirectoryPage { names, next })
    }

    async fn have_directories(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        let inner = self.lock();
        Ok(names.iter().map(|name| inner.directories.contains_key(*name)).collect())
    }

    async fn have_metrics_below(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        let inner = self.lock();
        let below = |name: &&str| {
            let prefix = format!("{name}.");
            let mut rest = inner.written_us.range(prefix.clone()..);
            rest.next().is_some_and(|(metric, _)| metric.starts_with(&prefix))
        };
        Ok(names.iter().map(below).collect())
    }

    async fn create_directories(&self, names: &[&str]) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let now_us = inner.now_us;
        for name in names {
            inner.directories.insert((*name).to_owned(), now_us);
        }
        Ok(())
    }

    async fn delete_directories(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError> {
        let mut inner = self.lock();
        for name in names {
            if inner.directories.get(*name).is_some_and(|written| *written <= as_of_us) {
                inner.directories.remove(*name);
            }
        }
        Ok(())
    }
}
