//! What every request needs.

use std::sync::Arc;

use plumbago_engine::SeriesSource;
use plumbago_index::{FindLimits, Index};
use plumbago_model::Clock;
use plumbago_render::TimeZone;
use plumbago_telemetry::Registry;
use tokio::sync::Semaphore;

use crate::cache::Cache;
use crate::config::{Config, Limits};
use crate::error::ApiError;
use crate::events::EventLog;
use crate::finder::NameFinder;
use crate::memory::Pool;
use crate::metadata::Metadata;
use crate::tagging::Tagging;

/// What the API port reads from.
#[derive(Debug, Clone)]
pub struct Handles {
    /// The names.
    pub index: Arc<Index>,
    /// Who finds names instead of the index.
    pub finder: Option<Arc<dyn NameFinder>>,
    /// The points.
    pub source: Arc<dyn SeriesSource>,
    /// Who enters and takes out tagged series.
    pub tagging: Arc<dyn Tagging>,
    /// Who knows how metrics are kept.
    pub metadata: Arc<dyn Metadata>,
    /// What happened.
    pub events: Arc<EventLog>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where requests are counted.
    pub registry: Registry,
}

#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) index: Arc<Index>,
    pub(crate) finder: Option<Arc<dyn NameFinder>>,
    pub(crate) source: Arc<dyn SeriesSource>,
    pub(crate) tagging: Arc<dyn Tagging>,
    pub(crate) metadata: Arc<dyn Metadata>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tag_writes: bool,
    pub(crate) url_prefix: String,
    pub(crate) limits: Limits,
    pub(crate) zone: TimeZone,
    pub(crate) zone_name: String,
    /// Walks through all names at the same time; each holds a thread while its client reads.
    pub(crate) index_walks: Arc<Semaphore>,
    /// Large searches at the same time: one per processor, the others wait.
    pub(crate) searches: Arc<Semaphore>,
    /// Searches outside of this process at the same time.
    pub(crate) finds: Arc<Semaphore>,
    /// Answers of renders.
    pub(crate) cache: Cache,
    /// Memory that renders hold.
    pub(crate) memory: Arc<Pool>,
    /// Large evaluations at the same time: one per processor, the others wait.
    pub(crate) evaluations: Arc<Semaphore>,
    /// Pictures painted at the same time: one per processor, the others wait.
    pub(crate) pictures: Arc<Semaphore>,
}

/// How many [`Api::index_walks`].
const INDEX_WALKS: usize = 4;
/// How many [`Api::finds`].
const FINDS: usize = 16;

impl Api {
    pub(crate) fn new(config: &Config, handles: &Handles) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            index: Arc::clone(&handles.index),
            finder: handles.finder.clone(),
            source: Arc::clone(&handles.source),
            tagging: Arc::clone(&handles.tagging),
            metadata: Arc::clone(&handles.metadata),
            events: Arc::clone(&handles.events),
            clock: Arc::clone(&handles.clock),
            tag_writes: config.tag_writes,
            url_prefix: config.url_prefix.clone(),
            limits: config.limits.clone(),
            zone: TimeZone::named(&config.time_zone).unwrap_or_default(),
            zone_name: config.time_zone.clone(),
            index_walks: Arc::new(Semaphore::new(INDEX_WALKS)),
            searches: Arc::new(Semaphore::new(processors)),
            finds: Arc::new(Semaphore::new(FINDS)),
            cache: Cache::new(&config.cache, &handles.registry),
            memory: Arc::new(Pool::new(
                match config.limits.memory_total.bytes() {
                    0 => usize::MAX,
                    bytes => bytes,
                },
                handles.registry.gauge(
                    "plumbago_api_render_memory_bytes",
                    "memory that render requests hold for their series",
                    &[],
                ),
            )),
            evaluations: Arc::new(Semaphore::new(processors)),
            pictures: Arc::new(Semaphore::new(processors)),
        }
    }

    /// Tags are looked up in memory only.
    pub(crate) fn check_tags(&self) -> Result<(), ApiError> {
        match self.finder {
            None => Ok(()),
            Some(_) => Err(ApiError::Forbidden(
                "tags are found in memory only; ask a node with index.mode = \"memory\"",
            )),
        }
    }

    pub(crate) fn find_limits(&self) -> FindLimits {
        FindLimits { results_max: self.limits.find_results, visited_max: self.limits.find_visited }
    }
}
