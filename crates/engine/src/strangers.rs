//! Metrics that no head knows, read as their metadata say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbago_model::{MetricConfig, MetricId};
use plumbago_store::{MetadataStore, StoreError};

use crate::downsample::Plan;
use crate::fetch::FetchRequest;
use crate::shard::read::HeadAnswer;

/// Metrics whose settings are remembered; when there are more, all are forgotten.
const KEPT_MAX: usize = 100_000;
/// How long: a metric may be deleted, or made anew with other settings.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Looks metrics up in the metadata store when they are read.
#[derive(Debug)]
pub(crate) struct Strangers {
    metadata: Arc<dyn MetadataStore>,
    kept: Mutex<HashMap<Arc<str>, Kept>>,
}

/// The settings of a metric, and when they were looked up.
type Kept = (Instant, Arc<MetricConfig>);

impl Strangers {
    pub(crate) fn new(metadata: Arc<dyn MetadataStore>) -> Self {
        Self { metadata, kept: Mutex::default() }
    }

    /// Fills in the answers that heads left out.
    pub(crate) async fn answer(
        &self,
        request: &FetchRequest,
        answers: &mut [Option<HeadAnswer>],
    ) -> Result<(), StoreError> {
        let unknown: Vec<usize> = (0..answers.len()).filter(|at| answers[*at].is_none()).collect();
        let configs = self.configs(request, &unknown).await?;
        let range = (request.from, request.until, request.now);
        for (at, config) in unknown.into_iter().zip(configs) {
            let plan = |config| Arc::new(Plan::new(config));
            let id = MetricId::of(&request.names[at]);
            answers[at] = config.and_then(|config| HeadAnswer::empty(id, plan(config), range));
        }
        Ok(())
    }

    /// The settings of metrics, as far as there are such metrics.
    async fn configs(
        &self,
        request: &FetchRequest,
        places: &[usize],
    ) -> Result<Vec<Option<Arc<MetricConfig>>>, StoreError> {
        let mut configs = self.remembered(request, places);
        let missing: Vec<usize> = (0..places.len()).filter(|at| configs[*at].is_none()).collect();
        if missing.is_empty() {
            return Ok(configs);
        }
        let names: Vec<&str> = missing.iter().map(|at| &*request.names[places[*at]]).collect();
        let found = self.metadata.get(&names).await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() + missing.len() > KEPT_MAX {
            kept.clear();
        }
        for (at, meta) in missing.into_iter().zip(found) {
            let Some(meta) = meta else { continue };
            let name = Arc::clone(&request.names[places[at]]);
            kept.insert(name, (Instant::now(), Arc::clone(&meta.config)));
            configs[at] = Some(meta.config);
        }
        Ok(configs)
    }

    fn remembered(&self, request: &FetchRequest, places: &[usize]) -> Vec<Option<Arc<MetricConfig>>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let config = |at: &usize| {
            let (since, config) = kept.get(&request.names[*at])?;
            (since.elapsed() < KEPT_FOR).then(|| Arc::clone(config))
        };
        places.iter().map(config).collect()
    }
}
