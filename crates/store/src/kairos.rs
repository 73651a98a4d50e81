//! The tables of a KairosDB, for an import: what the servers have, not yet decoded.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::{Share, StoreError};

/// How a keyspace counts the time within a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KairosUnit {
    /// Milliseconds, shifted by a bit: a keyspace that has had data before version 1.3.
    Legacy,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

/// Cells of one storage row, in the order of time. A row may come in several pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KairosCells {
    /// The row key.
    pub key: Vec<u8>,
    /// For each cell the column name, where its value ends in `values`, and whether it has a time to live.
    pub cells: Vec<(u32, usize, bool)>,
    /// The values, one after the other.
    pub values: Vec<u8>,
    /// Cells whose column name has not four bytes.
    pub damaged: u64,
}

/// Cells of several rows, and where to go on.
#[derive(Debug, Clone, Default)]
pub struct KairosPage {
    /// The cells.
    pub rows: Vec<KairosCells>,
    /// `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// A keyspace of a KairosDB. Nothing is ever written to it.
#[async_trait]
pub trait KairosTables: Send + Sync + Debug {
    /// How the keyspace counts the time within a row. One that no version since 1.3 has opened does not say it; it is
    /// found as that version does.
    ///
    /// # Errors
    /// If the servers do not answer, or this is no keyspace of a KairosDB.
    async fn unit(&self) -> Result<KairosUnit, StoreError>;

    /// A page of the cells in a part of the token ring.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn scan(&self, share: Share, position: Option<Vec<u8>>) -> Result<KairosPage, StoreError>;

    /// The metrics that the indexes know, of both generations; each once, sorted.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn metrics(&self) -> Result<Vec<String>, StoreError>;

    /// The row times of a metric in the index of the versions since 1.2, in milliseconds since the epoch.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn row_times(&self, metric: &str) -> Result<Vec<i64>, StoreError>;

    /// Type and tags of the rows of a metric at one row time, from the same index.
    ///
    /// # Errors
    /// If the servers do not answer.
    async fn listed(
        &self,
        metric: &str,
        row_time_ms: i64,
    ) -> Result<Vec<(String, Vec<(String, String)>)>, StoreError>;

    /// The row keys of a metric in the index of the versions before 1.2.
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
#[async_trait]
pub trait KairosConnector: Send + Sync + Debug {
    /// Connects to a keyspace. Without contact points to those of the configuration, with its user and its TLS.
    ///
    /// # Errors
    /// If no server answers, or this is no keyspace of a KairosDB.
    async fn connect(
        &self,
        keyspace: &str,
        contact_points: &[String],
    ) -> Result<std::sync::Arc<dyn KairosTables>, StoreError>;
}
