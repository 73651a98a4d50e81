//! The tables of a KairosDB, for an import. The content is returned undecoded, as it is on the servers.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;

use crate::{Share, StoreError};

/// The unit in which a keyspace counts the time within a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KairosUnit {
    /// Milliseconds, shifted left by one bit, in a keyspace that had data before version 1.3.
    Legacy,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

/// Cells of one storage row, in the order of time. Several of these structures may belong to one row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KairosCells {
    /// The bytes of the row key.
    pub key: Vec<u8>,
    /// For each cell the column name, the end position of its value in `values`, and whether it has a time to
    /// live.
    pub cells: Vec<(u32, usize, bool)>,
    /// The values, one after the other.
    pub values: Vec<u8>,
    /// Number of cells whose column name does not have four bytes.
    pub damaged: u64,
}

/// Cells of several rows, and the position of the next page.
#[derive(Debug, Clone, Default)]
pub struct KairosPage {
    /// The cells, grouped by row.
    pub rows: Vec<KairosCells>,
    /// The position of the next page; `None` after the last page.
    pub next: Option<Vec<u8>>,
}

/// A keyspace of a KairosDB. Nothing is ever written to it.
#[boxed_futures]
pub trait KairosTables: Send + Sync + Debug {
    /// The unit in which the keyspace counts the time within a row. A keyspace that was never opened by
    /// version 1.3 or later does not contain the unit; it is then derived by the rule of that version.
    ///
    /// # Errors
    /// If the servers do not answer, or if this is not a keyspace of a KairosDB.
    async fn unit(&self) -> Result<KairosUnit, StoreError>;

    /// A page of the cells in a part of the token ring.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn scan(&self, share: Share, position: Option<Vec<u8>>) -> Result<KairosPage, StoreError>;

    /// The metrics that the indexes of both generations have, each once, sorted.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn metrics(&self) -> Result<Vec<String>, StoreError>;

    /// The row times of a metric, in milliseconds since the epoch, from the index of KairosDB 1.2 and later.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn row_times(&self, metric: &str) -> Result<Vec<i64>, StoreError>;

    /// Type and tags of the rows of a metric at one row time, from the index of [`KairosTables::row_times`].
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn listed(
        &self,
        metric: &str,
        row_time_ms: i64,
    ) -> Result<Vec<(String, Vec<(String, String)>)>, StoreError>;

    /// The row keys of a metric, from the index of versions before 1.2.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn listed_before(&self, metric: &str) -> Result<Vec<Vec<u8>>, StoreError>;

    /// A page of the cells of one row.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn row(&self, key: &[u8], position: Option<Vec<u8>>) -> Result<KairosPage, StoreError>;
}

/// Connects to keyspaces of KairosDBs.
#[boxed_futures]
pub trait KairosConnector: Send + Sync + Debug {
    /// Connects to a keyspace. Uses user and TLS of the configuration, and its contact points if none are given.
    ///
    /// # Errors
    /// If no server answers, or if this is not a keyspace of a KairosDB.
    async fn connect(
        &self,
        keyspace: &str,
        contact_points: &[String],
    ) -> Result<std::sync::Arc<dyn KairosTables>, StoreError>;
}
