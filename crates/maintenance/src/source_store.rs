//! Another store, as an import sees it: its metrics and their content.

use std::fmt::Debug;
use std::path::Path;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{MetaPage, StoreError, StoredMetric};

use crate::verb_error::VerbError;

/// A store that metrics are read from.
#[boxed_futures]
pub trait SourceStore: Send + Sync {
    /// Identifies the store, for messages and for the list of a run that continues.
    fn identity(&self) -> String;

    /// Returns one page of all metrics, as [`MetadataStore::scan`](plumbago_store::MetadataStore::scan).
    ///
    /// # Errors
    /// If the page cannot be read.
    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError>;

    /// Returns the content of these metrics, which must be distinct, in the same order; `None` for a metric
    /// that no longer exists.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn metrics(&self, names: &[&str]) -> Result<Vec<Option<StoredMetric>>, StoreError>;

    /// Closes the store. Returns the damaged files that were found, as lines for people.
    ///
    /// # Errors
    /// If the store cannot be closed cleanly. No data is lost in that case.
    async fn close(self: Box<Self>) -> Result<Vec<String>, VerbError>;
}

/// Opens other stores.
#[boxed_futures]
pub trait StoreConnector: Send + Sync + Debug {
    /// Opens the store that a configuration file names. A relative path of a data directory in it starts from
    /// `directory`.
    ///
    /// # Errors
    /// If the file has errors, it is the store of this process, or it is in use and cannot be shared, or
    /// cannot be opened.
    async fn open(&self, file: &Path, directory: &Path) -> Result<Box<dyn SourceStore>, VerbError>;
}
