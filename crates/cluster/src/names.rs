//! The names of the shared store, with a copy on the local disk.
//!
//! A start reads the copy, so it is quick and needs no server. Metrics that other daemons created in the
//! meantime are found later, when all names are reread.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, MetricConfig};
use plumbago_store::{
    Capabilities, ErrorKind, MetaPage, MetadataStore, MetricMeta, SharedStore, Store, StoreError,
};
use plumbago_telemetry::Throttle;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use crate::is_past_announcement;
use crate::load::Load;
use crate::retry::RETRY_LINE_MS;

/// How long the first start, which has no copy of the names, waits for the names from the server. After this
/// time the daemon accepts points without them.
const FIRST_START_TIMEOUT: Duration = Duration::from_secs(10);

/// The names of the shared store with their local copy: a metadata store that writes to both. Clones share
/// the same state.
#[derive(Debug, Clone)]
pub struct Names(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn SharedStore>,
    copy: Arc<dyn MetadataStore>,
    /// Path of a file that exists if the copy was complete at least once.
    marker: PathBuf,
    /// If `true`, all names are loaded at the start. Otherwise the copy has only the names created by this
    /// daemon.
    loads_all: bool,
    is_complete: AtomicBool,
    /// If `true`, this process has loaded all names from the server.
    is_loaded: AtomicBool,
    /// The load from the server, if one is in progress.
    load: Mutex<Option<Load>>,
    /// If `true`, the first start has given up waiting for the server.
    gave_up: AtomicBool,
    /// If `true`, the xFilesFactor of all metrics counts as 0
    /// ([`plumbago_store::SchemaStatus::ignores_x_files_factor`]).
    ignores_x_files_factor: AtomicBool,
    /// Becomes `true` once the schema was checked.
    checked: watch::Receiver<bool>,
    stop: CancellationToken,
}

impl Names {
    /// Puts `copy` in front of `store`. `marker` is the path of the file that says that the copy is complete.
    /// If `loads_all` is `false`, the names of the server are never copied. The first load waits until
    /// `checked` is `true`.
    pub fn new(
        store: Arc<dyn SharedStore>,
        copy: Arc<dyn MetadataStore>,
        (marker, loads_all): (PathBuf, bool),
        checked: watch::Receiver<bool>,
        stop: CancellationToken,
    ) -> Self {
        let text = fs::read_to_string(&marker).unwrap_or_default();
        Self(Arc::new(Inner {
            store,
            copy,
            is_complete: AtomicBool::new(text.starts_with("complete")),
            is_loaded: AtomicBool::new(false),
            load: Mutex::default(),
            gave_up: AtomicBool::new(false),
            ignores_x_files_factor: AtomicBool::new(text.contains("biggraphite")),
            marker,
            loads_all,
            checked,
            stop,
        }))
    }

    /// The local copy.
    pub(crate) fn copy(&self) -> &dyn MetadataStore {
        &*self.0.copy
    }

    /// Whether the copy has been complete at least once, with every name of the server.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.is_complete.load(Ordering::Acquire)
    }

    /// Returns whether this process has loaded all names from the server at its start.
    pub(crate) fn is_loaded(&self) -> bool {
        self.0.is_loaded.load(Ordering::Acquire)
    }

    /// Sets whether the xFilesFactor of all metrics counts as 0. This is also saved in the marker file, for a
    /// start without a server.
    pub(crate) fn set_ignores_x_files_factor(&self, ignores: bool) {
        self.0.ignores_x_files_factor.store(ignores, Ordering::Release);
        if self.is_complete() {
            self.mark_complete();
        }
    }

    /// Adds metrics that other daemons created to the copy. Returns them with their effective configurations.
    pub(crate) async fn copy_created(&self, metrics: Vec<MetricMeta>) -> Result<Vec<MetricMeta>, StoreError> {
        self.0.copy.create(&metrics).await?;
        let adapt = |meta: MetricMeta| MetricMeta { config: self.effective(meta.config), ..meta };
        Ok(metrics.into_iter().map(adapt).collect())
    }

    /// Returns the configuration that the engine must use: with an xFilesFactor of 0 if the store ignores it.
    fn effective(&self, config: Arc<MetricConfig>) -> Arc<MetricConfig> {
        if config.x_files_factor == 0.0 || !self.0.ignores_x_files_factor.load(Ordering::Acquire) {
            return config;
        }
        Arc::new(MetricConfig { x_files_factor: 0.0, ..(*config).clone() })
    }

    /// Whether a metric may be unknown to other daemons at `now` (seconds since the epoch). Another program
    /// has created it, and this daemon now gets points of it without having known it. A daemon of Plumbago
    /// announces what it creates, so this one would know it; but BigGraphite announces nothing.
    fn is_unannounced(&self, known: &MetricMeta, now: u32) -> bool {
        let has_others = self.0.ignores_x_files_factor.load(Ordering::Acquire);
        self.0.loads_all && self.is_complete() && (has_others || is_past_announcement(known, now.into()))
    }

    /// Records in the marker file that the copy has every name of the server.
    pub(crate) fn mark_complete(&self) {
        let made_by = if self.0.ignores_x_files_factor.load(Ordering::Acquire) { " biggraphite" } else { "" };
        if let Err(error) = fs::write(&self.0.marker, format!("complete{made_by}\n")) {
            let file = self.0.marker.display();
            tracing::warn!(%error, %file, "failed to write the file that marks the copy of the names as complete; the next start reads all names from the server again");
        }
        self.0.is_complete.store(true, Ordering::Release);
    }

    /// Returns a page of names from the server; these names are already in the copy. Returns `None` if the
    /// first start continues without the server. In that case points are accepted, and the names are loaded
    /// once the server answers.
    async fn page_from_server(&self, is_first: bool, limit: usize) -> Result<Option<MetaPage>, StoreError> {
        if self.0.gave_up.load(Ordering::Acquire) {
            return Ok(None);
        }
        if !is_first {
            return self.next_page().await.map(Some);
        }
        match tokio::time::timeout(FIRST_START_TIMEOUT, self.first_page(limit)).await {
            Ok(Ok(page)) => Ok(Some(page)),
            Ok(Err(error)) if error.kind == ErrorKind::Closed => Err(error),
            failed => {
                let error = failed.ok().and_then(Result::err).map(|error| error.to_string());
                tracing::warn!(
                    error,
                    "the server does not answer; starting without its names, which are loaded later"
                );
                *self.0.load.lock().await = None;
                self.0.gave_up.store(true, Ordering::Release);
                Ok(None)
            }
        }
    }

    /// Waits until the schema was checked, starts the load, and returns its first page.
    async fn first_page(&self, limit: usize) -> Result<MetaPage, StoreError> {
        let mut checked = self.0.checked.clone();
        let is_checked = async { checked.wait_for(|checked| *checked).await.is_ok() };
        if self.0.stop.run_until_cancelled(is_checked).await != Some(true) {
            return Err(stopping());
        }
        *self.0.load.lock().await = Some(Load::start(&self.0.store, &self.0.copy, limit));
        self.next_page().await
    }

    /// Returns the next page of the load. `next` is empty but set if more pages may follow: the load keeps
    /// the real position itself.
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
                // The marker must not survive a power cut that takes names from the copy.
                self.0.copy.sync_names().await?;
                self.mark_complete();
                self.0.is_loaded.store(true, Ordering::Release);
                Ok(MetaPage::default())
            }
            None => Err(stopping()),
        }
    }
}

/// Logs that metrics got points before this daemon knew that they exist.
fn say_known(metrics: usize) {
    static SAID: Throttle = Throttle::new(RETRY_LINE_MS);
    if metrics > 0
        && let Some(suppressed) = SAID.pass_now()
    {
        tracing::info!(
            metrics,
            suppressed,
            "metrics got points before this daemon knew their names; they take the settings that the server has, which are \
             not those of the storage rules"
        );
    }
}

fn stopping() -> StoreError {
    StoreError::new(ErrorKind::Closed, "read the names: the daemon is stopping")
}

impl Store for Names {
    fn capabilities(&self) -> Capabilities {
        Capabilities { ordered_scan: self.is_complete(), several_writers: true, ..Capabilities::default() }
    }
}

#[boxed_futures]
impl MetadataStore for Names {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        self.create_new(metrics).await.map(drop)
    }

    /// If another program has created a metric already, its settings are kept.
    async fn create_new(
        &self,
        metrics: &[MetricMeta],
    ) -> Result<Vec<(usize, Arc<MetricConfig>)>, StoreError> {
        let names: Vec<&str> = metrics.iter().map(|meta| meta.name.as_str()).collect();
        let known = self.0.store.get(&names).await?;
        let new: Vec<MetricMeta> =
            metrics.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(m, _)| m.clone()).collect();
        if !new.is_empty() {
            self.0.store.create(&new).await?;
        }
        let (mut unannounced, mut others) = (Vec::new(), Vec::new());
        for (place, (meta, known)) in metrics.iter().zip(&known).enumerate() {
            let Some(known) = known else { continue };
            if self.is_unannounced(known, meta.created_on) {
                unannounced.push(meta.name.as_str());
            }
            let read = self.effective(Arc::clone(&known.config));
            if read != meta.config {
                others.push((place, read));
            }
        }
        say_known(others.len());
        let all: Vec<MetricMeta> =
            metrics.iter().zip(known).map(|(meta, known)| known.unwrap_or_else(|| meta.clone())).collect();
        self.0.copy.create(&all).await?;
        if !unannounced.is_empty() {
            self.0.store.announce(&unannounced).await;
        }
        Ok(others)
    }

    /// Changes the store and the copy. Both keep the stored xFilesFactor, even if it counts as 0.
    async fn set_aggregation(&self, name: &str, method: Aggregation) -> Result<(), StoreError> {
        self.0.store.set_aggregation(name, method).await?;
        self.0.copy.set_aggregation(name, method).await
    }

    async fn set_configs(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        self.0.store.set_configs(metrics).await?;
        self.0.copy.set_configs(metrics).await
    }

    fn as_read(&self, config: Arc<MetricConfig>) -> Arc<MetricConfig> {
        self.effective(config)
    }

    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        let mut found = self.0.store.get(names).await?;
        for meta in found.iter_mut().flatten() {
            meta.config = self.effective(Arc::clone(&meta.config));
        }
        Ok(found)
    }

    async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        self.0.store.delete(names).await?;
        self.0.copy.delete(names).await
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        let from_server = match self.is_complete() || !self.0.loads_all {
            true => None,
            false => self.page_from_server(position.is_none(), limit).await?,
        };
        let mut page = match from_server {
            Some(page) => page,
            None => self.0.copy.scan(position, limit).await?,
        };
        // Metrics share configurations, so the configuration is adapted once for consecutive metrics that
        // share it.
        let mut last: Option<(Arc<MetricConfig>, Arc<MetricConfig>)> = None;
        for entry in &mut page.entries {
            let effective = match &last {
                Some((from, to)) if Arc::ptr_eq(from, &entry.config) => Arc::clone(to),
                _ => self.effective(Arc::clone(&entry.config)),
            };
            last = Some((Arc::clone(&entry.config), Arc::clone(&effective)));
            entry.config = effective;
        }
        Ok(page)
    }

    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        self.0.store.hide(names, at).await?;
        self.0.copy.hide(names, at).await
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        self.0.store.show(names).await?;
        self.0.copy.show(names).await
    }

    /// Returns the hidden series from the server, or from the copy while the server does not answer.
    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        match self.0.store.hidden().await {
            Err(error) if error.is_transient() => self.0.copy.hidden().await,
            answer => answer,
        }
    }

    /// Syncs the copy. A start without the server has only the names in the copy.
    async fn sync_names(&self) -> Result<(), StoreError> {
        self.0.copy.sync_names().await
    }
}
