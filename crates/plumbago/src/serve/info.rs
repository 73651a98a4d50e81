//! Gives the API its metadata of metrics and its events.

use std::sync::Arc;

use async_trait::async_trait;
use plumbago_api::{EventLog, Metadata, MetadataError};
use plumbago_model::MetricConfig;
use plumbago_store::MetadataStore;

use crate::config::Config;
use crate::error::{Exit, Failure};

/// Name of the events file in the data directory.
const EVENTS: &str = "events.jsonl";

/// The API's access to the metadata store.
#[derive(Debug)]
pub(super) struct Stored(pub(super) Arc<dyn MetadataStore>);

#[async_trait]
impl Metadata for Stored {
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError> {
        let found = self.0.get(names).await.map_err(|error| MetadataError(error.to_string()))?;
        Ok(found.into_iter().map(|meta| meta.map(|meta| meta.config)).collect())
    }
}

/// Opens the log of events, with those of earlier runs. It keeps none if `api.events_bytes` is 0.
pub(super) fn events(config: &Config) -> Result<Arc<EventLog>, Failure> {
    let bytes_max = config.api.events_bytes.bytes();
    if bytes_max == 0 {
        return Ok(Arc::new(EventLog::off()));
    }
    let path = config.data_dir.join(EVENTS);
    let failed = |error| anyhow::Error::new(error).context(format!("cannot open {}", path.display()));
    let log = EventLog::open(&path, bytes_max).map_err(|error| Failure::new(Exit::Store, failed(error)))?;
    Ok(Arc::new(log))
}
