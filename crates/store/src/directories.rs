//! What the clean-up sees beyond [`MetadataStore`](crate::MetadataStore): directories, where a store
//! keeps rows of them, and the rows of metrics as they are, sound or not.
//!
//! Every deletion here says *as of* when: the moment at which the caller had looked. What was written
//! after that moment survives, also where the writer is another process; a store whose cells carry
//! timestamps deletes with this one. The caller looks again after it has deleted, and puts back what
//! a writer came to rely on meanwhile (`crates/maintenance`).

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::MetricConfig;

use crate::StoreError;

/// One of several equal parts of all rows, so that several processes can share a job. On a cluster a
/// part is a range of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which part, from 0.
    pub index: u32,
    /// How many parts there are, at least 1.
    pub of: u32,
}

impl Share {
    /// Everything.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// Where this part begins and ends on a scale of `0..=u64::MAX`; ends are included, and all parts
    /// together cover the scale exactly once.
    pub fn bounds(&self) -> (u64, u64) {
        let at = |i: u32| (u128::from(i) << 64) / u128::from(self.of.max(1));
        (at(self.index) as u64, (at(self.index.saturating_add(1)) - 1) as u64)
    }
}

/// A page of directories.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DirectoryPage {
    /// Their names, without a dot at the end.
    pub names: Vec<String>,
    /// Give this to the next call; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// Why a metric's rows are not sound. Readers take such a metric for one that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowProblem {
    /// It is listed, but has no metadata: a creation that was cut off, or one under way.
    NoMetadata,
    /// It has metadata, but is not listed, so no glob finds it.
    NotListed,
    /// A row that cannot be read, and what is wrong with it.
    Broken(String),
}

/// What a store has of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRow {
    /// The name as it stands in the row.
    pub name: String,
    /// How it is kept; `None` when that cannot be read.
    pub config: Option<Arc<MetricConfig>>,
    /// When it was created, seconds since the epoch; 0 when that cannot be read.
    pub created_on: u32,
    /// When the store was last told that it is being written, seconds since the epoch; `None` where a
    /// store keeps no such note.
    pub updated_on: Option<u32>,
    /// `None` for a sound metric.
    pub problem: Option<RowProblem>,
}

/// A page of metrics.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct RowPage {
    /// The metrics.
    pub rows: Vec<MetricRow>,
    /// Give this to the next call; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// The rows of metrics, for jobs.
#[async_trait]
pub trait RowStore: Send + Sync + Debug {
    /// One page of the metrics in a part, about `limit` of them; a page may be empty and not the last.
    /// A metric with any row at all is in it, once. Positions stay good over a restart.
    async fn scan_rows(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<RowPage, StoreError>;

    /// Looks metrics up as they are now, in the order asked; `None` where no row is left.
    async fn look_up_rows(&self, names: &[&str]) -> Result<Vec<Option<MetricRow>>, StoreError>;

    /// Deletes all rows that metrics had at `as_of_us` (microseconds since the epoch), not their
    /// points; unknown ones are no error.
    async fn delete_rows(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError>;
}

/// Rows of directories, in stores that have them. Names have no dot at the end.
#[async_trait]
pub trait DirectoryStore: Send + Sync + Debug {
    /// One page of the directories in a part, about `limit` of them; a page may be empty and not the
    /// last. Positions stay good over a restart.
    async fn scan_directories(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<DirectoryPage, StoreError>;

    /// Which of the directories have a row, in the order asked.
    async fn have_directories(&self, names: &[&str]) -> Result<Vec<bool>, StoreError>;

    /// Which of the directories have a metric below them, at any depth, in the order asked. Metrics
    /// without metadata count.
    async fn have_metrics_below(&self, names: &[&str]) -> Result<Vec<bool>, StoreError>;

    /// Creates rows for exactly these directories; those that exist are no error.
    async fn create_directories(&self, names: &[&str]) -> Result<(), StoreError>;

    /// Deletes the rows that directories had at `as_of_us` (microseconds since the epoch); unknown
    /// ones are no error.
    async fn delete_directories(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError>;
}

/// The directories above a metric or a directory, the nearest first. Tags are no part of the path.
pub fn directories_above(name: &str) -> impl Iterator<Item = &str> {
    let path = name.split(';').next().unwrap_or(name);
    std::iter::successors(path.rsplit_once('.'), |(above, _)| above.rsplit_once('.')).map(|(above, _)| above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_once() {
        assert_eq!(Share::ALL.bounds(), (0, u64::MAX));
        for of in [2, 3, 7, 1000] {
            let mut next = 0;
            for index in 0..of {
                let (from, to) = Share { index, of }.bounds();
                assert_eq!(from, next, "{index} of {of}");
                assert!(from <= to);
                next = to.wrapping_add(1);
            }
            assert_eq!(next, 0, "of {of}");
        }
    }

    #[test]
    fn directories_above_a_name() {
        assert_eq!(directories_above("a.b.c").collect::<Vec<_>>(), ["a.b", "a"]);
        assert_eq!(directories_above("a.b;x=1.2").collect::<Vec<_>>(), ["a"]);
        assert_eq!(directories_above("a").count(), 0);
    }
}
