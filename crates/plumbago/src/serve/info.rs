//! What the API is told of metrics and events beside their points.

use std::sync::Arc;

use async_trait::async_trait;
use plumbago_api::{EventLog, Metadata, MetadataError};
use plumbago_model::MetricConfig;
use plumbago_store::MetadataStore;

use crate::config::Config;
use crate::error::{Exit, Failure};

/// The file of events below the data directory.
const EVENTS: &str = "events.jsonl";

/// How metrics are kept, as the store has it.
#[derive(Debug)]
pub(super) struct Stored(pub(super) Arc<dyn MetadataStore>);

#[async_trait]
impl Metadata for Stored {
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError> {
        let found = self.0.get(names).await.map_err(|error| MetadataError(error.to_string()))?;
        Ok(found.into_iter().map(|meta| meta.map(|meta| meta.config)).collect())
    }
}

/// The events of earlier runs, with a place for more.
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
