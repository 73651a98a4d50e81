//! Loads all names of the shared store, reading several parts at the same time.

use std::sync::Arc;
use std::time::Duration;

use plumbago_store::{MetaPage, MetadataStore, MetricMeta, Share, SharedStore, StoreError};
use plumbago_telemetry::Throttle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::meta_of;
use crate::retry::with_jitter;

/// Number of parts that are read at the same time.
const PARTS: u32 = 4;
/// Largest number of pages that are read ahead of the caller.
const PENDING_PAGES: usize = 4;
/// The pause before a failed page is read again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A running load of all names. Pages are returned in no particular order. Each is written to the local copy
/// before it is returned. Dropping this value stops the load.
#[derive(Debug)]
pub(crate) struct Load {
    pages: mpsc::Receiver<Result<MetaPage, StoreError>>,
    _parts: JoinSet<()>,
}

impl Load {
    /// Starts to read pages of at most `limit` names from `store` and to write them to `copy`.
    pub(crate) fn start(store: &Arc<dyn SharedStore>, copy: &Arc<dyn MetadataStore>, limit: usize) -> Self {
        let (sender, pages) = mpsc::channel(PENDING_PAGES);
        let throttle = Arc::new(Throttle::new(10_000));
        let mut parts = JoinSet::new();
        for index in 0..PARTS {
            let part = Part {
                share: Share { index, of: PARTS },
                store: Arc::clone(store),
                copy: Arc::clone(copy),
                throttle: Arc::clone(&throttle),
            };
            parts.spawn(part.read(limit, sender.clone()));
        }
        Self { pages, _parts: parts }
    }

    /// Waits for the next page. Returns `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Result<MetaPage, StoreError>> {
        self.pages.recv().await
    }
}

struct Part {
    share: Share,
    store: Arc<dyn SharedStore>,
    copy: Arc<dyn MetadataStore>,
    throttle: Arc<Throttle>,
}

impl Part {
    async fn read(self, limit: usize, pages: mpsc::Sender<Result<MetaPage, StoreError>>) {
        let mut position = None;
        loop {
            let page = self.page(position, limit).await;
            let next = page.as_ref().ok().and_then(|page| page.next.clone());
            if pages.send(page).await.is_err() || next.is_none() {
                return;
            }
            position = next;
        }
    }

    /// Reads the page at `position` and writes it to the copy. Retries until the servers answer.
    async fn page(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        let page = loop {
            match self.store.scan_part(self.share, position.clone(), limit).await {
                Err(error) if error.is_transient() => self.report(&error),
                answer => break answer?,
            }
            tokio::time::sleep(with_jitter(RETRY_PAUSE)).await;
        };
        self.copy.create(&page.iter().map(meta_of).collect::<Vec<MetricMeta>>()).await?;
        Ok(page)
    }

    fn report(&self, error: &StoreError) {
        if let Some(suppressed) = self.throttle.pass_now() {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::warn!(error, suppressed, "failed to read the names from the server; retrying");
        }
    }
}
