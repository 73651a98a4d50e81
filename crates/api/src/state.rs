//! What every request needs.

use std::sync::Arc;

use plumbago_engine::SeriesSource;
use plumbago_index::{FindLimits, Index};
use plumbago_model::Clock;
use plumbago_render::TimeZone;
use plumbago_telemetry::Registry;
use tokio::sync::Semaphore;

use crate::config::{Config, Limits};
use crate::tagging::Tagging;

/// What the API port reads from.
#[derive(Debug, Clone)]
pub struct Handles {
    /// The names.
    pub index: Arc<Index>,
    /// The points.
    pub source: Arc<dyn SeriesSource>,
    /// Who enters and takes out tagged series.
    pub tagging: Arc<dyn Tagging>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where requests are counted.
    pub registry: Registry,
}

#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) index: Arc<Index>,
    pub(crate) source: Arc<dyn SeriesSource>,
    pub(crate) tagging: Arc<dyn Tagging>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tag_writes: bool,
    pub(crate) limits: Limits,
    pub(crate) zone: TimeZone,
    pub(crate) zone_name: String,
    /// Walks through all names at the same time; each holds a thread while its client reads.
    pub(crate) index_walks: Arc<Semaphore>,
    /// Large searches at the same time: one per processor, the others wait.
    pub(crate) searches: Arc<Semaphore>,
    /// Pictures painted at the same time: one per processor, the others wait.
    pub(crate) pictures: Arc<Semaphore>,
}

/// How many [`Api::index_walks`].
const INDEX_WALKS: usize = 4;

impl Api {
    pub(crate) fn new(config: &Config, handles: &Handles) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            index: Arc::clone(&handles.index),
            source: Arc::clone(&handles.source),
            tagging: Arc::clone(&handles.tagging),
            clock: Arc::clone(&handles.clock),
            tag_writes: config.tag_writes,
            limits: config.limits.clone(),
            zone: TimeZone::named(&config.time_zone).unwrap_or_default(),
            zone_name: config.time_zone.clone(),
            index_walks: Arc::new(Semaphore::new(INDEX_WALKS)),
            searches: Arc::new(Semaphore::new(processors)),
            pictures: Arc::new(Semaphore::new(processors)),
        }
    }

    pub(crate) fn find_limits(&self) -> FindLimits {
        FindLimits { results_max: self.limits.find_results, visited_max: self.limits.find_visited }
    }
}
