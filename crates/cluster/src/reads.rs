//! Records in the store when metrics were last read.

use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::Series;
use plumbago_store::{FetchError, FetchRequest, KnownSlots, Provenance, ReadNotes, SeriesSource};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Largest number of reads that wait to be recorded. Further ones are dropped: the store records only a
/// sample anyway.
const PENDING_MAX: usize = 16;

/// A source of series that records which metrics are read from it.
#[derive(Debug)]
pub struct NotedReads {
    source: Arc<dyn SeriesSource>,
    notes: mpsc::Sender<Vec<Arc<str>>>,
}

impl NotedReads {
    /// Wraps `source`. Reads are recorded in `store` until `stop`.
    pub fn new(source: Arc<dyn SeriesSource>, store: Arc<dyn ReadNotes>, stop: CancellationToken) -> Self {
        let (notes, pending) = mpsc::channel(PENDING_MAX);
        tokio::spawn(async move { stop.run_until_cancelled(write_notes(store, pending)).await });
        Self { source, notes }
    }

    fn note<'a>(&self, names: impl Iterator<Item = &'a Arc<str>>) {
        if let Ok(slot) = self.notes.try_reserve() {
            slot.send(names.cloned().collect());
        }
    }
}

#[boxed_futures]
impl SeriesSource for NotedReads {
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError> {
        let series = self.source.fetch(request).await?;
        self.note(series.iter().map(|series| &series.name));
        Ok(series)
    }

    async fn fetch_known(&self, request: &FetchRequest) -> Result<Vec<KnownSlots>, FetchError> {
        let read = self.source.fetch_known(request).await?;
        self.note(read.iter().map(|series| &series.name));
        Ok(read)
    }

    /// An explanation is not recorded as a read, because it accompanies a graph whose read is recorded.
    async fn explain(&self, request: &FetchRequest) -> Result<Vec<Provenance>, FetchError> {
        self.source.explain(request).await
    }
}

async fn write_notes(store: Arc<dyn ReadNotes>, mut pending: mpsc::Receiver<Vec<Arc<str>>>) {
    while let Some(names) = pending.recv().await {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        if let Err(error) = store.note_read(&names).await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot record which metrics were read"
            );
        }
    }
}
