//! Metrics without a head, which are read with their settings from the metadata store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use plumbago_model::{MetricConfig, MetricId};
use plumbago_store::{FetchRequest, MetadataStore, StoreError};

use crate::shard::downsample::MetricLayout;
use crate::shard::read::HeadAnswer;

/// Largest number of metrics in the cache. When there are more, the cache is emptied.
const CACHED_MAX: usize = 100_000;
/// How long the settings of a metric stay in the cache. The time is short, because the metric may be deleted
/// or created again meanwhile.
const CACHED_FOR: Duration = Duration::from_secs(60);

/// Looks metrics up in the metadata store, with a cache.
#[derive(Debug)]
pub(crate) struct MetadataFallback {
    metadata: Arc<dyn MetadataStore>,
    cache: DashMap<Arc<str>, Cached>,
}

/// The time of the look-up, and the settings of the metric.
type Cached = (Instant, Arc<MetricConfig>);

impl MetadataFallback {
    pub(crate) fn new(metadata: Arc<dyn MetadataStore>) -> Self {
        Self { metadata, cache: DashMap::new() }
    }

    /// Adds answers for the metrics that have no head.
    ///
    /// # Errors
    /// If the metadata store cannot be read.
    pub(crate) async fn answer(
        &self,
        request: &FetchRequest,
        answers: &mut [Option<HeadAnswer>],
    ) -> Result<(), StoreError> {
        let unknown: Vec<usize> = (0..answers.len()).filter(|at| answers[*at].is_none()).collect();
        let configs = self.configs(request, &unknown).await?;
        let range = (request.from, request.until, request.now);
        for (at, config) in unknown.into_iter().zip(configs) {
            let layout = |config| Arc::new(MetricLayout::new(config));
            let id = MetricId::of(&request.names[at]);
            answers[at] = config.and_then(|config| HeadAnswer::empty(id, layout(config), range));
        }
        Ok(())
    }

    /// The settings of the metrics at these positions of the request; `None` for unknown metrics.
    async fn configs(
        &self,
        request: &FetchRequest,
        places: &[usize],
    ) -> Result<Vec<Option<Arc<MetricConfig>>>, StoreError> {
        let mut configs = self.cached(request, places);
        let missing: Vec<usize> = (0..places.len()).filter(|at| configs[*at].is_none()).collect();
        if missing.is_empty() {
            return Ok(configs);
        }
        let names: Vec<&str> = missing.iter().map(|at| &*request.names[places[*at]]).collect();
        let found = self.metadata.get(&names).await?;
        if self.cache.len() + missing.len() > CACHED_MAX {
            self.cache.clear();
        }
        for (at, meta) in missing.into_iter().zip(found) {
            let Some(meta) = meta else { continue };
            let name = Arc::clone(&request.names[places[at]]);
            self.cache.insert(name, (Instant::now(), Arc::clone(&meta.config)));
            configs[at] = Some(meta.config);
        }
        Ok(configs)
    }

    fn cached(&self, request: &FetchRequest, places: &[usize]) -> Vec<Option<Arc<MetricConfig>>> {
        let config = |at: &usize| {
            let cached = self.cache.get(&request.names[*at])?;
            let (since, config) = &*cached;
            (since.elapsed() < CACHED_FOR).then(|| Arc::clone(config))
        };
        places.iter().map(config).collect()
    }
}
