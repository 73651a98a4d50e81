//! Metadata: which metrics exist, and their settings.

use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, MetricConfig, MetricId};

use crate::{Store, StoreError};

/// One metric's metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricMeta {
    /// The canonical name, including the tags of a tagged series.
    pub name: String,
    /// Retention, aggregation method and xFilesFactor.
    pub config: Arc<MetricConfig>,
    /// When the metric was created, in seconds since the epoch.
    pub created_on: u32,
}

impl MetricMeta {
    /// The id, which is computed from the name.
    pub fn id(&self) -> MetricId {
        MetricId::of(&self.name)
    }

    /// The same metric with another aggregation method.
    #[must_use]
    pub fn with_aggregation(self, aggregation: Aggregation) -> Self {
        Self { config: Arc::new(MetricConfig { aggregation, ..(*self.config).clone() }), ..self }
    }
}

/// One metric of a [`MetaPage`].
#[derive(Debug, Clone)]
pub struct MetaEntry {
    /// Byte offset of the name's end in `MetaPage::text`. The name starts where the previous one ends.
    pub name_end: u32,
    /// When the metric was created, in seconds since the epoch.
    pub created_on: u32,
    /// The settings of the metric. Metrics with equal settings share one allocation.
    pub config: Arc<MetricConfig>,
}

/// One page of a scan. It needs no allocation per metric.
#[derive(Debug, Default, Clone)]
pub struct MetaPage {
    /// The names of all metrics, concatenated.
    pub text: String,
    /// The metrics, in the order of their names in the text.
    pub entries: Vec<MetaEntry>,
    /// The position to pass to the next call; `None` after the last page.
    pub next: Option<Vec<u8>>,
}

impl MetaPage {
    /// The metrics of the page, each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MetaEntry)> {
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let name = &self.text[start..entry.name_end as usize];
            start = entry.name_end as usize;
            (name, entry)
        })
    }
}

/// Records when metrics were last read.
#[boxed_futures]
pub trait ReadNotes: Store {
    /// Records the time at which existing metrics were read. The store may use only a sample of the calls,
    /// and keep only the day.
    ///
    /// # Errors
    /// A transient error if some reads were not recorded.
    async fn note_read(&self, names: &[&str]) -> Result<(), StoreError>;
}

/// Stores metadata. Callers pass canonical names only.
#[boxed_futures]
pub trait MetadataStore: Store {
    /// Creates metrics. A metric that exists keeps its `created_on` and gets the new settings.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some metrics may already exist.
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError>;

    /// Creates metrics whose names are new to this daemon. A store that other programs write too keeps the
    /// settings of metrics that they have created already. For each metric whose settings are not the given
    /// ones, returns its position in `metrics` and the settings that readers get.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some metrics may already exist.
    async fn create_new(
        &self,
        metrics: &[MetricMeta],
    ) -> Result<Vec<(usize, Arc<MetricConfig>)>, StoreError> {
        self.create(metrics).await?;
        Ok(Vec::new())
    }

    /// Changes the aggregation method of a metric and keeps the rest of its settings. Ignored if there is no such
    /// metric.
    ///
    /// # Errors
    /// A transient error if the caller has to retry.
    async fn set_aggregation(&self, name: &str, method: Aggregation) -> Result<(), StoreError> {
        let Some(Some(meta)) = self.get(&[name]).await?.pop() else { return Ok(()) };
        self.create(&[meta.with_aggregation(method)]).await
    }

    /// Gives existing metrics other settings. Unlike with [`MetadataStore::create`], these replace what other
    /// programs have written.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some metrics may already be changed.
    async fn set_configs(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        self.create(metrics).await
    }

    /// The settings that readers get after these were stored. They may differ, because a store may
    /// ignore the factor.
    fn as_read(&self, config: Arc<MetricConfig>) -> Arc<MetricConfig> {
        config
    }

    /// Reads metrics, in the order of `names`; `None` for a metric that does not exist.
    ///
    /// # Errors
    /// If one of them cannot be read.
    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError>;

    /// Deletes metrics, but not their points. Names that do not exist are ignored.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some metrics may already be deleted.
    async fn delete(&self, names: &[&str]) -> Result<(), StoreError>;

    /// Returns one page of all metrics, at most `limit` of them. The first call has no position, later ones
    /// have `MetaPage::next`. Stores should return names in order if they can
    /// ([`Capabilities::ordered_scan`](crate::Capabilities::ordered_scan)): the index then loads several
    /// times faster.
    ///
    /// # Errors
    /// If the page cannot be read.
    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError>;

    /// Hides tagged series from searches by tag, as of `at` (seconds since the epoch). Deleting a metric also
    /// removes its mark. A store may keep or ignore the mark of a metric that does not exist.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some series may already be hidden.
    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError>;

    /// Makes hidden series visible again. Series that are not hidden are ignored.
    ///
    /// # Errors
    /// A transient error if the caller has to retry; some series may already be visible.
    async fn show(&self, names: &[&str]) -> Result<(), StoreError>;

    /// All hidden series, each with the time of its last `MetadataStore::hide`, in seconds since the epoch.
    ///
    /// # Errors
    /// If the series cannot be read.
    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError>;

    /// Makes every change so far survive a power cut, as far as it is kept on the local disk. Creation records
    /// of the journal may be dropped only after this.
    ///
    /// # Errors
    /// If the local disk fails; the caller has to retry.
    async fn sync_names(&self) -> Result<(), StoreError>;
}
