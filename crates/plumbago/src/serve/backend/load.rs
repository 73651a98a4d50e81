//! All names that the server has, read in several parts of the token ring at once.

use std::sync::Arc;
use std::time::Duration;

use plumbago_store::{MetaPage, MetadataStore, MetricMeta, StoreError};
use plumbago_store_cassandra::{CassandraStore, TokenRange};
use plumbago_store_embedded::EmbeddedStore;
use plumbago_telemetry::Throttle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Parts that are read at the same time.
const PARTS: u32 = 4;
/// Pages that wait to be taken.
const WAITING: usize = 4;
/// Between two tries of a server that cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);

/// The pages of a scan, in no order; each is in the copy before it is given. Dropping it ends the scan.
#[derive(Debug)]
pub(super) struct Load {
    pages: mpsc::Receiver<Result<MetaPage, StoreError>>,
    _parts: JoinSet<()>,
}

impl Load {
    /// Begins to read pages of `limit` names.
    pub(super) fn begin(remote: &CassandraStore, copy: &EmbeddedStore, limit: usize) -> Self {
        let (sender, pages) = mpsc::channel(WAITING);
        let throttle = Arc::new(Throttle::new(10_000));
        let mut parts = JoinSet::new();
        for range in TokenRange::split(PARTS) {
            let part = Part { remote: remote.clone(), copy: copy.clone(), throttle: Arc::clone(&throttle) };
            parts.spawn(part.read(range, limit, sender.clone()));
        }
        Self { pages, _parts: parts }
    }

    /// The next page; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<MetaPage, StoreError>> {
        self.pages.recv().await
    }
}

struct Part {
    remote: CassandraStore,
    copy: EmbeddedStore,
    throttle: Arc<Throttle>,
}

impl Part {
    async fn read(self, range: TokenRange, limit: usize, pages: mpsc::Sender<Result<MetaPage, StoreError>>) {
        let mut position = None;
        loop {
            let page = self.page(range, position, limit).await;
            let next = page.as_ref().ok().and_then(|page| page.next.clone());
            if pages.send(page).await.is_err() || next.is_none() {
                return;
            }
            position = next;
        }
    }

    /// A page; waits until the server can be asked.
    async fn page(
        &self,
        range: TokenRange,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<MetaPage, StoreError> {
        let page = loop {
            match self.remote.scan_range(range, position.clone(), limit).await {
                Err(error) if error.is_transient() => self.report(&error),
                answer => break answer?,
            }
            tokio::time::sleep(PAUSE).await;
        };
        let meta = |(name, entry): (&str, &plumbago_store::MetaEntry)| MetricMeta {
            name: name.to_owned(),
            config: Arc::clone(&entry.config),
            created_on: entry.created_on,
        };
        self.copy.create(&page.iter().map(meta).collect::<Vec<_>>()).await?;
        Ok(page)
    }

    fn report(&self, error: &StoreError) {
        if let Some(held_back) = self.throttle.pass_now() {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::warn!(error, held_back, "names cannot be read from the server yet, trying again");
        }
    }
}
