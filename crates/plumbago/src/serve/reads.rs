//! Which metrics are read, noted for the clean-up of those who share the store (`read_on`).

use std::sync::Arc;

use async_trait::async_trait;
use plumbago_engine::{FetchError, FetchRequest, SeriesSource};
use plumbago_model::Series;
use plumbago_store_cassandra::CassandraStore;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Reads whose notes wait; what comes beyond them is not noted, as most reads are not.
const WAITING: usize = 16;

/// A source whose reads are noted.
#[derive(Debug)]
pub(super) struct Noted {
    source: Arc<dyn SeriesSource>,
    notes: mpsc::Sender<Vec<Arc<str>>>,
}

impl Noted {
    /// Notes what is read from `source` in the metadata of `store`, until it is told to stop.
    pub(super) fn new(source: Arc<dyn SeriesSource>, store: CassandraStore, stop: CancellationToken) -> Self {
        let (notes, waiting) = mpsc::channel(WAITING);
        tokio::spawn(async move { stop.run_until_cancelled(note(store, waiting)).await });
        Self { source, notes }
    }
}

#[async_trait]
impl SeriesSource for Noted {
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError> {
        let series = self.source.fetch(request).await?;
        if let Ok(place) = self.notes.try_reserve() {
            place.send(series.iter().map(|series| Arc::clone(&series.name)).collect());
        }
        Ok(series)
    }
}

async fn note(store: CassandraStore, mut waiting: mpsc::Receiver<Vec<Arc<str>>>) {
    while let Some(names) = waiting.recv().await {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        if let Err(error) = store.note_read(&names).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "reads not noted");
        }
    }
}
