//! Names in Cassandra, with a copy on the local disk: a start reads the copy, so that it is quick and
//! needs no server, and what others created meanwhile is found afterwards.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use plumbago_model::MetricConfig;
use plumbago_store::{ErrorKind, MetaPage, MetadataStore, MetricMeta, StoreError};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_embedded::EmbeddedStore;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use super::load::Load;

/// How long a first start waits for the names that the server has.
const PATIENCE: Duration = Duration::from_secs(10);

/// Names with their copy. Cloning shares them.
#[derive(Debug, Clone)]
pub(super) struct Names(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    remote: CassandraStore,
    copy: EmbeddedStore,
    /// There once the copy has been complete.
    marker: PathBuf,
    /// The names of the server are loaded; otherwise the copy has only those that are written here.
    loads: bool,
    complete: AtomicBool,
    /// The scan that is under way.
    load: Mutex<Option<Load>>,
    /// The start goes on with an incomplete copy, since the server cannot be asked.
    gave_up: AtomicBool,
    /// Keyspaces that BigGraphite made never had an xFilesFactor applied.
    ignores_factor: AtomicBool,
    /// True once it is known what the server is.
    checked: watch::Receiver<bool>,
    stop: CancellationToken,
}

impl Names {
    /// `copy` keeps nothing but names; `marker` is a file beside it, there once all names of the server
    /// are in the copy, if they are to be loaded at all.
    pub(super) fn new(
        remote: CassandraStore,
        copy: EmbeddedStore,
        (marker, loads): (PathBuf, bool),
        checked: watch::Receiver<bool>,
        stop: CancellationToken,
    ) -> Self {
        let text = fs::read_to_string(&marker).unwrap_or_default();
        Self(Arc::new(Inner {
            remote,
            copy,
            complete: AtomicBool::new(text.starts_with("complete")),
            load: Mutex::default(),
            gave_up: AtomicBool::new(false),
            ignores_factor: AtomicBool::new(text.contains("biggraphite")),
            marker,
            loads,
            checked,
            stop,
        }))
    }

    /// The copy, to be closed.
    pub(super) fn copy(&self) -> &EmbeddedStore {
        &self.0.copy
    }

    /// The copy has been complete once.
    pub(super) fn is_complete(&self) -> bool {
        self.0.complete.load(Ordering::Acquire)
    }

    /// Notes whose keyspaces these are.
    pub(super) fn set_made_by_biggraphite(&self, made: bool) {
        self.0.ignores_factor.store(made, Ordering::Release);
        if self.is_complete() {
            self.mark();
        }
    }

    /// Keeps what others have created in the copy, and gives it as the engine is to see it.
    pub(super) async fn take_over(&self, metrics: Vec<MetricMeta>) -> Result<Vec<MetricMeta>, StoreError> {
        self.0.copy.create(&metrics).await?;
        Ok(metrics.into_iter().map(|meta| MetricMeta { config: self.seen(meta.config), ..meta }).collect())
    }

    /// Takes deleted names out of the copy.
    pub(super) async fn drop_from_copy(&self, names: &[&str]) -> Result<(), StoreError> {
        self.0.copy.delete(names).await
    }

    fn seen(&self, config: Arc<MetricConfig>) -> Arc<MetricConfig> {
        if config.x_files_factor == 0.0 || !self.0.ignores_factor.load(Ordering::Acquire) {
            return config;
        }
        Arc::new(MetricConfig { x_files_factor: 0.0, ..(*config).clone() })
    }

    /// Notes that every name of the server is in the copy.
    pub(super) fn mark(&self) {
        let made = if self.0.ignores_factor.load(Ordering::Acquire) { " biggraphite" } else { "" };
        if let Err(error) = fs::write(&self.0.marker, format!("complete{made}\n")) {
            tracing::warn!(%error, "the copy of the names is not marked as complete");
        }
        self.0.complete.store(true, Ordering::Release);
    }

    /// A page from the server, which is also in the copy; `None` when a first start does better to go
    /// on without: points are accepted then, and the names come once the server answers.
    async fn page_from_server(&self, begins: bool, limit: usize) -> Result<Option<MetaPage>, StoreError> {
        if self.0.gave_up.load(Ordering::Acquire) {
            return Ok(None);
        }
        if !begins {
            return self.next_page().await.map(Some);
        }
        match tokio::time::timeout(PATIENCE, self.first_page(limit)).await {
            Ok(Ok(page)) => Ok(Some(page)),
            Ok(Err(error)) if error.kind == ErrorKind::Closed => Err(error),
            failed => {
                let error = failed.ok().and_then(Result::err).map(|error| error.to_string());
                tracing::warn!(
                    error,
                    "started without the names that the server has: it does not tell them yet"
                );
                *self.0.load.lock().await = None;
                self.0.gave_up.store(true, Ordering::Release);
                Ok(None)
            }
        }
    }

    /// Begins to read all names once it is known what the server is.
    async fn first_page(&self, limit: usize) -> Result<MetaPage, StoreError> {
        let mut checked = self.0.checked.clone();
        let known = async { checked.wait_for(|checked| *checked).await.is_ok() };
        if self.0.stop.run_until_cancelled(known).await != Some(true) {
            return Err(stopping());
        }
        *self.0.load.lock().await = Some(Load::begin(&self.0.remote, &self.0.copy, limit));
        self.next_page().await
    }

    /// The next page of a load. Its position says no more than that there may be others.
    async fn next_page(&self) -> Result<MetaPage, StoreError> {
        let mut load = self.0.load.lock().await;
        let next = async {
            match load.as_mut() {
                Some(load) => load.next().await,
                None => None,
            }
        };
        match self.0.stop.run_until_cancelled(next).await {
            Some(Some(page)) => Ok(MetaPage { next: Some(Vec::new()), ..page? }),
            Some(None) => {
                *load = None;
                self.mark();
                Ok(MetaPage::default())
            }
            None => Err(stopping()),
        }
    }
}

fn stopping() -> StoreError {
    StoreError::new(ErrorKind::Closed, "read names: stopping")
}

#[async_trait]
impl MetadataStore for Names {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        let names: Vec<&str> = metrics.iter().map(|meta| meta.name.as_str()).collect();
        // What another program keeps its own way is left so.
        let known = self.0.remote.get(&names).await?;
        let new: Vec<MetricMeta> =
            metrics.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(m, _)| m.clone()).collect();
        if !new.is_empty() {
            self.0.remote.create(&new).await?;
        }
        let all: Vec<MetricMeta> =
            metrics.iter().zip(known).map(|(meta, known)| known.unwrap_or_else(|| meta.clone())).collect();
        self.0.copy.create(&all).await
    }

    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        let mut found = self.0.remote.get(names).await?;
        for meta in found.iter_mut().flatten() {
            meta.config = self.seen(Arc::clone(&meta.config));
        }
        Ok(found)
    }

    async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        self.0.remote.delete(names).await?;
        self.0.copy.delete(names).await
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        let from_server = match self.is_complete() || !self.0.loads {
            true => None,
            false => self.page_from_server(position.is_none(), limit).await?,
        };
        let mut page = match from_server {
            Some(page) => page,
            None => self.0.copy.scan(position, limit).await?,
        };
        let mut last: Option<(Arc<MetricConfig>, Arc<MetricConfig>)> = None;
        for entry in &mut page.entries {
            // Configurations are shared, so a run of equal ones is looked at once.
            let seen = match &last {
                Some((from, to)) if Arc::ptr_eq(from, &entry.config) => Arc::clone(to),
                _ => self.seen(Arc::clone(&entry.config)),
            };
            last = Some((Arc::clone(&entry.config), Arc::clone(&seen)));
            entry.config = seen;
        }
        Ok(page)
    }

    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        self.0.remote.hide(names, at).await?;
        self.0.copy.hide(names, at).await
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        self.0.remote.show(names).await?;
        self.0.copy.show(names).await
    }

    /// As the server says, or as the copy knows while it cannot be asked.
    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        match self.0.remote.hidden().await {
            Err(error) if error.is_transient() => self.0.copy.hidden().await,
            answer => answer,
        }
    }

    fn scans_in_order(&self) -> bool {
        self.is_complete()
    }
}
