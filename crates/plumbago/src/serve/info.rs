//! Gives the API and the carbonlink port the settings of metrics.

use std::sync::Arc;

use plumbago_api::{KeptAnswers, Metadata, MetadataError};
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::Engine;
use plumbago_model::{Aggregation, MetricConfig};
use plumbago_store::MetadataStore;
use plumbago_telemetry::with_causes;

use super::Core;
use super::tagging::canonical_name;

/// The name by which graphite-web and carbon know the aggregation method. They know no other setting.
const AGGREGATION: &str = "aggregationMethod";

/// Reads settings from the metadata store and changes them through the engine.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    metadata: Arc<dyn MetadataStore>,
    engine: Engine,
    answers: KeptAnswers,
}

impl Settings {
    pub(super) fn new(core: &Core) -> Self {
        Self {
            metadata: Arc::clone(&core.stores.metadata),
            engine: core.engine.clone(),
            answers: core.answers.clone(),
        }
    }
}

#[boxed_futures]
impl Metadata for Settings {
    async fn configs(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, MetadataError> {
        let found = self.metadata.get(names).await.map_err(|error| MetadataError(error.to_string()))?;
        Ok(found.into_iter().map(|meta| meta.map(|meta| meta.config)).collect())
    }

    async fn settings(&self, names: &[&str], key: &str) -> Vec<Result<String, MetadataError>> {
        if let Err(error) = check_key(key) {
            return vec![Err(error); names.len()];
        }
        let stored: Vec<_> = names.iter().map(|name| canonical_name(name).map_err(MetadataError)).collect();
        let known: Vec<&str> = stored.iter().flatten().map(String::as_str).collect();
        let mut configs = match self.configs(&known).await {
            Ok(configs) => configs.into_iter(),
            Err(error) => return vec![Err(error); names.len()],
        };
        let method = |name: Result<String, MetadataError>| {
            let name = name?;
            let config = configs.next().flatten();
            let config = config.ok_or_else(|| MetadataError(format!("there is no metric {name:?}")))?;
            Ok(config.aggregation.to_string())
        };
        stored.into_iter().map(method).collect()
    }

    async fn set(&self, name: &str, key: &str, value: &str) -> Result<String, MetadataError> {
        check_key(key)?;
        let method: Aggregation = value
            .parse()
            .map_err(|error| MetadataError(format!("Unrecognized aggregation method: {value} ({error})")))?;
        let stored = canonical_name(name).map_err(MetadataError)?;
        let old = self.engine.set_aggregation(&stored, method).await;
        self.answers.forget();
        let old = old.map_err(|error| MetadataError(with_causes(&error)))?;
        if old != method {
            tracing::info!("the aggregation method of {name:?} is {method} now; it was {old}");
        }
        Ok(old.to_string())
    }
}

/// Refuses every other key, with the text that carbon uses.
fn check_key(key: &str) -> Result<(), MetadataError> {
    if key == AGGREGATION {
        return Ok(());
    }
    let shown: String = key.chars().take(200).collect();
    Err(MetadataError(format!("Unsupported metadata key \"{shown}\"")))
}
