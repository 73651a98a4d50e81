//! Opens the carbonlink port, and answers it with the points of the engine and the settings of metrics.

use std::sync::Arc;

use plumbago_api::{Metadata, MetadataError};
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::Reader;
use plumbago_ingest::carbonlink::{Cache, CacheError, Carbonlink, Points};
use plumbago_model::Clock;
use plumbago_telemetry::with_causes;

use super::info::Settings;
use super::tagging::canonical_name;
use super::{Core, internal};
use crate::config::Config;
use crate::error::Failure;

/// The points that this daemon has accepted and not written yet, without those of its peers.
struct EngineCache {
    reader: Reader,
    clock: Arc<dyn Clock>,
    settings: Settings,
}

/// Binds the port. `None` if it is off.
pub(super) fn bind(config: &Config, core: &Core) -> Result<Option<Carbonlink>, Failure> {
    let cache = EngineCache {
        reader: core.engine.reader(),
        clock: Arc::clone(&core.clock),
        settings: Settings::new(core),
    };
    Carbonlink::bind(&config.carbonlink, Arc::new(cache), Arc::clone(&core.clock), &core.registry)
        // The error names the setting.
        .map_err(|error| internal(error.into()))
}

#[boxed_futures]
impl Cache for EngineCache {
    async fn points(&self, names: &[Arc<str>], points_max: usize) -> Result<Option<Vec<Points>>, CacheError> {
        // A text that is not a valid name has no points either.
        let stored: Vec<Arc<str>> =
            names.iter().map(|name| canonical_name(name).unwrap_or_default().into()).collect();
        let found = self.reader.pending_raw(&stored, self.clock.now(), points_max).await;
        found.map_err(|error| CacheError(with_causes(&error)))
    }

    async fn metadata(&self, metric: &str, key: &str) -> Result<String, CacheError> {
        let unknown = || Err(MetadataError(format!("there is no metric {metric:?}")));
        let value = self.settings.settings(&[metric], key).await.pop();
        value.unwrap_or_else(unknown).map_err(|error| CacheError(error.0))
    }

    async fn set_metadata(&self, metric: &str, key: &str, value: &str) -> Result<String, CacheError> {
        self.settings.set(metric, key, value).await.map_err(|error| CacheError(error.0))
    }
}
