//! Creates and hides tagged series at the request of an API client (`docs/decisions/tags.md`).
//!
//! Hiding a series removes it from tag searches and sets a mark in the metadata store. The series is shown
//! again when it is tagged again or gets points.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plumbago_index::Index;
use plumbago_model::{Clock, MetricConfig};
use plumbago_store::{FetchError, MetadataStore, MetricMeta};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{ClusterError, LocalMetrics};

/// How often the marks are read, because other daemons set and remove them too.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// Largest number of hidden series. Their marks are read often and all at once; on Cassandra they are in one
/// partition.
const HIDDEN_MAX: usize = 100_000;

/// A function that returns the configuration for a new metric with this name.
pub type ConfigFor = Arc<dyn Fn(&str) -> Arc<MetricConfig> + Send + Sync>;

/// Creates, hides and shows tagged series. Names must be canonical; names without tags are ignored.
pub struct TaggedSeries {
    local: Arc<dyn LocalMetrics>,
    metadata: Arc<dyn MetadataStore>,
    index: Arc<Index>,
    clock: Arc<dyn Clock>,
    config_for: ConfigFor,
    /// Hidden series that seemed to have got points at the last sync. The lock is held while marks change, so
    /// that the store and the index agree.
    suspects: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for TaggedSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaggedSeries").finish_non_exhaustive()
    }
}

impl TaggedSeries {
    /// Keeps the hidden series in `index` the same as the marks in `metadata`. `config_for` supplies the
    /// configuration of series that `TaggedSeries::tag` creates.
    pub fn new(
        local: Arc<dyn LocalMetrics>,
        metadata: Arc<dyn MetadataStore>,
        index: Arc<Index>,
        clock: Arc<dyn Clock>,
        config_for: ConfigFor,
    ) -> Self {
        Self { local, metadata, index, clock, config_for, suspects: Mutex::default() }
    }

    /// Calls [`TaggedSeries::sync_marks`] every few seconds until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(SYNC_EVERY)).await.is_some() {
            self.sync_marks().await;
        }
    }

    /// Hides the series that are marked in the store and shows all others. Removes the marks of series that
    /// have got points since. A failure is logged, and the next call retries.
    pub async fn sync_marks(&self) {
        let mut suspects = self.suspects.lock().await;
        if let Err(error) = self.try_sync_marks(&mut suspects).await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "failed to read which series are hidden; retrying"
            );
        }
    }

    async fn try_sync_marks(&self, suspects: &mut BTreeSet<String>) -> Result<(), ClusterError> {
        let marked = self.metadata.hidden().await?;
        let written = self.written(&marked).await?;
        // A mark is removed only if its series seemed to get points twice in a row. Once is not enough,
        // because a series whose older points are still being stored looks the same.
        let back: Vec<&str> = written.iter().filter(|name| suspects.contains(**name)).copied().collect();
        if !back.is_empty() {
            self.metadata.show(&back).await?;
        }
        let mut hidden: BTreeSet<&str> = marked.iter().map(|(name, _)| name.as_str()).collect();
        for name in &back {
            hidden.remove(name);
        }
        let before = self.index.hidden_series();
        for name in before.iter().filter(|name| !hidden.contains(name.as_str())) {
            self.index.show_series(name);
        }
        for name in &hidden {
            self.index.hide_series(name);
        }
        *suspects = written.into_iter().map(str::to_owned).collect();
        Ok(())
    }

    /// Returns the series that got points since they were marked. `marked` contains names, and the times of
    /// their marks in seconds since the epoch.
    async fn written<'a>(&self, marked: &'a [(String, u32)]) -> Result<Vec<&'a str>, FetchError> {
        let mut by_time: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (name, at) in marked {
            by_time.entry(*at).or_default().push(name);
        }
        let mut all = Vec::new();
        for (at, names) in by_time {
            let written = self.local.are_written(&names, i64::from(at)).await?;
            all.extend(names.into_iter().zip(written).filter(|(_, written)| *written).map(|(name, _)| name));
        }
        Ok(all)
    }

    /// Creates those tagged series that do not exist and shows those that are hidden.
    ///
    /// # Errors
    /// If the store or the engine fails. The call may be repeated.
    pub async fn tag(&self, names: &[String]) -> Result<(), ClusterError> {
        let _suspects = self.suspects.lock().await;
        let tagged: BTreeSet<&str> = tagged(names).collect();
        let new: Vec<&str> = tagged.iter().filter(|name| !self.index.contains(name)).copied().collect();
        if !new.is_empty() {
            self.create(&new).await?;
        }
        let hidden = self.index.hidden_series();
        let hidden: Vec<&str> =
            hidden.iter().map(String::as_str).filter(|name| tagged.contains(name)).collect();
        if !hidden.is_empty() {
            self.metadata.show(&hidden).await?;
        }
        for name in hidden {
            self.index.show_series(name);
        }
        Ok(())
    }

    /// Hides those tagged series that exist.
    ///
    /// # Errors
    /// If the store fails; the call may be repeated. If too many series are hidden.
    pub async fn untag(&self, names: &[String]) -> Result<(), ClusterError> {
        let _suspects = self.suspects.lock().await;
        let known: Vec<&str> = tagged(names).filter(|name| self.index.contains(name)).collect();
        if known.is_empty() {
            return Ok(());
        }
        let hidden: BTreeSet<String> = self.index.hidden_series().into_iter().collect();
        let new = known.iter().filter(|name| !hidden.contains(**name)).count();
        if hidden.len() + new > HIDDEN_MAX {
            return Err(ClusterError::TooManyHidden(HIDDEN_MAX));
        }
        let now = u32::try_from(self.clock.now()).unwrap_or(0);
        self.metadata.hide(&known, now).await?;
        for name in known {
            self.index.hide_series(name);
        }
        Ok(())
    }

    /// Creates series in the same way as their first points would.
    async fn create(&self, names: &[&str]) -> Result<(), ClusterError> {
        let created_on = u32::try_from(self.clock.now()).unwrap_or(0);
        let meta = |name: &&str| MetricMeta {
            name: (*name).to_owned(),
            config: (self.config_for)(name),
            created_on,
        };
        let metas: Vec<MetricMeta> = names.iter().map(meta).collect();
        self.metadata.create(&metas).await?;
        // Another program may have created them first, with a different configuration. In that case that
        // configuration is used.
        let metas: Vec<MetricMeta> = self.metadata.get(names).await?.into_iter().flatten().collect();
        Ok(self.local.adopt(&metas).await?)
    }
}

/// Returns the names that have tags. Tag searches never find names without tags, so those need not be hidden.
fn tagged(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str).filter(|name| name.contains(';'))
}
