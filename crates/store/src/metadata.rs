//! Metadata: which metrics exist and how they are kept.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::{MetricConfig, MetricId};

use crate::StoreError;

/// One metric's metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricMeta {
    /// The sanitised name; tags, when it has some, are part of it.
    pub name: String,
    /// How it is kept.
    pub config: Arc<MetricConfig>,
    /// When it was created, seconds since the epoch.
    pub created_on: u32,
}

impl MetricMeta {
    /// The id that follows from the name.
    pub fn id(&self) -> MetricId {
        MetricId::of(&self.name)
    }
}

/// One metric of a [`MetaPage`].
#[derive(Debug, Clone)]
pub struct MetaEntry {
    /// Where its name ends in the page's text; it starts where the one before ended.
    pub name_end: u32,
    /// When it was created.
    pub created_on: u32,
    /// How it is kept; equal configurations share one allocation.
    pub config: Arc<MetricConfig>,
}

/// A page of a scan, without an allocation per metric.
#[derive(Debug, Default, Clone)]
pub struct MetaPage {
    /// All names, one after the other.
    pub text: String,
    /// The metrics.
    pub entries: Vec<MetaEntry>,
    /// Give this to the next call; `None` at the end.
    pub next: Option<Vec<u8>>,
}

impl MetaPage {
    /// Names with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MetaEntry)> {
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let name = &self.text[start..entry.name_end as usize];
            start = entry.name_end as usize;
            (name, entry)
        })
    }
}

/// Keeps metadata. Names are sanitised by the caller.
#[async_trait]
pub trait MetadataStore: Send + Sync + Debug {
    /// Creates metrics; one that exists keeps its `created_on` and takes the new configuration.
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError>;

    /// Looks metrics up by name, in the order asked.
    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError>;

    /// Deletes metrics; unknown ones are no error.
    async fn delete(&self, names: &[&str]) -> Result<(), StoreError>;

    /// One page of all metrics, at most `limit`; start with `None`. Stores that can answer in name
    /// order do, since the index loads several times faster so.
    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError>;

    /// Marks tagged series as not to be found by their tags, since `at` (seconds since the epoch). A
    /// mark goes with its metric; that of a metric that is not there may be kept or not.
    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError>;

    /// Takes such marks away.
    async fn show(&self, names: &[&str]) -> Result<(), StoreError>;

    /// All that are marked, each with the last time it was.
    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError>;

    /// True when [`MetadataStore::scan`] yields names in byte order.
    fn scans_in_order(&self) -> bool;
}
