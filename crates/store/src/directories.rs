//! The rows of metrics and directories as the clean-up jobs need them. Unlike
//! [`MetadataStore`](crate::MetadataStore), these traits also return incomplete and damaged rows.
//!
//! Every deletion has an *as of* time, which lies before the caller read the rows. Rows written after that
//! time survive, even if another process wrote them. A store whose cells carry timestamps deletes with this
//! timestamp. After a deletion the caller checks again and restores rows that a writer needs again
//! (`crates/maintenance`).

use std::fmt::Debug;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::MetricConfig;

use crate::StoreError;

/// One of several equal parts of all rows, so that several processes can divide a job. In Cassandra a part
/// is a range of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The index of this part, from 0.
    pub index: u32,
    /// The number of parts, at least 1.
    pub of: u32,
}

impl Share {
    /// All rows as one part.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// The first and last position of this part on a scale of `0..=u64::MAX`, both inclusive. All parts
    /// together cover the scale exactly once.
    pub fn bounds(&self) -> (u64, u64) {
        let at = |i: u32| (u128::from(i) << 64) / u128::from(self.of.max(1));
        (at(self.index) as u64, (at(self.index.saturating_add(1)) - 1) as u64)
    }
}

/// One page of a scan of directories.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DirectoryPage {
    /// The names of the directories, without a dot at the end.
    pub names: Vec<String>,
    /// The position to pass to the next call; `None` after the last page.
    pub next: Option<Vec<u8>>,
}

/// A problem of a metric's rows. For readers such a metric does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowProblem {
    /// The metric is listed but has no metadata: its creation was interrupted or is still in progress.
    NoMetadata,
    /// The metric has metadata but is not listed, so no glob finds it.
    NotListed,
    /// A row cannot be read. The text says why.
    Broken(String),
}

/// The rows of one metric, whether they are complete or not.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRow {
    /// The name exactly as stored.
    pub name: String,
    /// Retention, aggregation method and xFilesFactor; `None` if they cannot be read.
    pub config: Option<Arc<MetricConfig>>,
    /// When the metric was created, in seconds since the epoch; 0 if this cannot be read.
    pub created_on: u32,
    /// When a writer last recorded that it writes the metric, in seconds since the epoch; `None` if the store
    /// does not keep this time.
    pub updated_on: Option<u32>,
    /// When the metric was last read, in seconds since the epoch, according to the store's records; `None` if
    /// there is no record.
    pub read_on: Option<u32>,
    /// The problem of the rows; `None` if they are complete and readable.
    pub problem: Option<RowProblem>,
}

/// One page of a scan of metrics' rows.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct RowPage {
    /// The metrics of this page.
    pub rows: Vec<MetricRow>,
    /// The position to pass to the next call; `None` after the last page.
    pub next: Option<Vec<u8>>,
}

/// The rows of metrics, for maintenance jobs.
#[boxed_futures]
pub trait RowStore: Send + Sync + Debug {
    /// Returns one page of the metrics in a part, about `limit` of them. An empty page need not be the last.
    /// Every metric that has at least one row appears exactly once. Positions stay valid after a restart.
    ///
    /// # Errors
    /// If the page cannot be read.
    async fn scan_rows(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<RowPage, StoreError>;

    /// Reads the current rows of metrics, in the order of `names`; `None` for a metric without rows.
    ///
    /// # Errors
    /// If the rows cannot be read.
    async fn look_up_rows(&self, names: &[&str]) -> Result<Vec<Option<MetricRow>>, StoreError>;

    /// The time since which reads are recorded, in seconds since the epoch. `None` if it is not known, for
    /// example because another program recorded reads before. A metric whose last read was before that time
    /// has no [`MetricRow::read_on`].
    ///
    /// # Errors
    /// If the time cannot be read.
    async fn reads_noted_since(&self) -> Result<Option<u32>, StoreError> {
        Ok(None)
    }

    /// Deletes the rows of metrics that were written up to `as_of_us` (microseconds since the epoch), but not
    /// their points. Names without rows are ignored.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some rows may already be deleted.
    async fn delete_rows(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError>;
}

/// The rows of directories, in stores that have such rows. Names have no dot at the end.
#[boxed_futures]
pub trait DirectoryStore: Send + Sync + Debug {
    /// Returns one page of the directories in a part, about `limit` of them. An empty page need not be the
    /// last. Positions stay valid after a restart.
    ///
    /// # Errors
    /// If the page cannot be read.
    async fn scan_directories(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<DirectoryPage, StoreError>;

    /// Whether each of the directories has a row, in the order of `names`.
    ///
    /// # Errors
    /// If the rows cannot be read.
    async fn have_directories(&self, names: &[&str]) -> Result<Vec<bool>, StoreError>;

    /// Whether each of the directories has a metric below it, at any depth, in the order of `names`. Metrics
    /// without metadata count too.
    ///
    /// # Errors
    /// If the answer is not known for one of the directories.
    async fn have_metrics_below(&self, names: &[&str]) -> Result<Vec<bool>, StoreError>;

    /// Creates rows for exactly these directories, not for those above them. Existing ones are not an error.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some rows may already exist.
    async fn create_directories(&self, names: &[&str]) -> Result<(), StoreError>;

    /// Deletes the rows of directories that were written up to `as_of_us` (microseconds since the epoch).
    /// Names without rows are ignored.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some rows may already be deleted.
    async fn delete_directories(&self, names: &[&str], as_of_us: i64) -> Result<(), StoreError>;
}

/// The directories above a metric or a directory, the nearest first. Tags do not belong to the path.
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
