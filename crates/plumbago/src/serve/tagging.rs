//! Tagged series that are entered and taken out by hand (`docs/decisions/tags.md`).
//!
//! A series that was taken out is marked in the store. It comes back when it is entered again, and by
//! itself when it gets points.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plumbago_api::{Tagging, TaggingError};
use plumbago_engine::{ConfigFor, Engine, FetchError};
use plumbago_index::Index;
use plumbago_ingest::Reject;
use plumbago_model::Clock;
use plumbago_store::{MetadataStore, MetricMeta, StoreError};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::Core;

/// How often the marks are read: other daemons set them too.
const EVERY: Duration = Duration::from_secs(5);

/// Enters and takes out series.
pub(super) struct Tags {
    engine: Engine,
    metadata: Arc<dyn MetadataStore>,
    index: Arc<Index>,
    clock: Arc<dyn Clock>,
    config_for: ConfigFor,
    /// Marked series that seemed to get points when they were last looked at. Held while marks change,
    /// so that store and index say the same.
    suspects: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for Tags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tags").finish_non_exhaustive()
    }
}

/// Compares marks and index from time to time.
pub(super) async fn watch(tags: Arc<Tags>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        tags.compare().await;
    }
}

impl Tags {
    pub(super) fn new(core: &Core, config_for: ConfigFor) -> Self {
        Self {
            engine: core.engine.clone(),
            metadata: Arc::clone(&core.stores.metadata),
            index: Arc::clone(&core.index),
            clock: Arc::clone(&core.clock),
            config_for,
            suspects: Mutex::default(),
        }
    }

    /// Hides what is marked, and shows what is not or what gets points again.
    pub(super) async fn compare(&self) {
        let mut suspects = self.suspects.lock().await;
        if let Err(error) = self.try_compare(&mut suspects).await {
            tracing::debug!(error = %format!("{error:#}"), "hidden series not read, trying later");
        }
    }

    async fn try_compare(&self, suspects: &mut BTreeSet<String>) -> anyhow::Result<()> {
        let marked = self.metadata.hidden().await?;
        let written = self.written(&marked).await?;
        // Twice in a row: a series whose points are on their way to the store passes for written.
        let back: Vec<&str> = written.iter().filter(|name| suspects.contains(**name)).copied().collect();
        if !back.is_empty() {
            self.metadata.show(&back).await?;
        }
        let mut hidden: BTreeSet<&str> = marked.iter().map(|(name, _)| name.as_str()).collect();
        back.iter().for_each(|name| {
            hidden.remove(name);
        });
        let before = self.index.hidden_series();
        before.iter().filter(|name| !hidden.contains(name.as_str())).for_each(|name| {
            self.index.show_series(name);
        });
        hidden.iter().for_each(|name| {
            self.index.hide_series(name);
        });
        *suspects = written.into_iter().map(str::to_owned).collect();
        Ok(())
    }

    /// Those that got points since they were marked.
    async fn written<'a>(&self, marked: &'a [(String, u32)]) -> Result<Vec<&'a str>, FetchError> {
        let mut by_time: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (name, at) in marked {
            by_time.entry(*at).or_default().push(name);
        }
        let mut all = Vec::new();
        for (at, names) in by_time {
            let written = self.engine.are_written(&names, i64::from(at)).await?;
            all.extend(names.into_iter().zip(written).filter(|(_, written)| *written).map(|(name, _)| name));
        }
        Ok(all)
    }

    /// Makes series that are not there, as their first points would.
    async fn create(&self, names: &[&str]) -> Result<(), TaggingError> {
        let created_on = u32::try_from(self.clock.now()).unwrap_or(0);
        let meta = |name: &&str| MetricMeta {
            name: (*name).to_owned(),
            config: (self.config_for)(name),
            created_on,
        };
        let metas: Vec<MetricMeta> = names.iter().map(meta).collect();
        self.metadata.create(&metas).await.map_err(|error| unavailable(&error))?;
        // Another program may have made them its own way.
        let metas = self.metadata.get(names).await.map_err(|error| unavailable(&error))?;
        let metas: Vec<MetricMeta> = metas.into_iter().flatten().collect();
        self.engine.adopt(&metas).await.map_err(|error| TaggingError::Unavailable(error.to_string()))
    }
}

#[async_trait]
impl Tagging for Tags {
    async fn tag(&self, paths: &[&str]) -> Result<Vec<String>, TaggingError> {
        let names = canonical(paths)?;
        let _unchanged = self.suspects.lock().await;
        let tagged: BTreeSet<&str> = tagged(&names).collect();
        let new: Vec<&str> = tagged.iter().filter(|name| !self.index.contains(name)).copied().collect();
        if !new.is_empty() {
            self.create(&new).await?;
        }
        let hidden = self.index.hidden_series();
        let hidden: Vec<&str> =
            hidden.iter().map(String::as_str).filter(|name| tagged.contains(name)).collect();
        if !hidden.is_empty() {
            self.metadata.show(&hidden).await.map_err(|error| unavailable(&error))?;
        }
        hidden.iter().for_each(|name| {
            self.index.show_series(name);
        });
        Ok(names)
    }

    async fn untag(&self, paths: &[&str]) -> Result<(), TaggingError> {
        let names = canonical(paths)?;
        let _unchanged = self.suspects.lock().await;
        let known: Vec<&str> = tagged(&names).filter(|name| self.index.contains(name)).collect();
        if known.is_empty() {
            return Ok(());
        }
        let now = u32::try_from(self.clock.now()).unwrap_or(0);
        self.metadata.hide(&known, now).await.map_err(|error| unavailable(&error))?;
        known.iter().for_each(|name| {
            self.index.hide_series(name);
        });
        Ok(())
    }
}

fn canonical(paths: &[&str]) -> Result<Vec<String>, TaggingError> {
    let read = |path: &&str| {
        plumbago_ingest::canonical(path).map_err(|reason| {
            let reason = match reason {
                Reject::NameEmpty => "there is no name in it",
                Reject::NameTooLong => "it is too long",
                Reject::NameControl => "there is white space or a control character in it",
                _ => "its tags cannot be read",
            };
            TaggingError::Path(format!("cannot read path {path:?}: {reason}"))
        })
    };
    paths.iter().map(read).collect()
}

/// Series without tags are found by their names only.
fn tagged(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str).filter(|name| name.contains(';'))
}

fn unavailable(error: &StoreError) -> TaggingError {
    TaggingError::Unavailable(error.to_string())
}
