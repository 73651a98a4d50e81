//! State shared by all requests.

use std::path::PathBuf;
use std::sync::Arc;

use plumbago_index::{FindLimits, Index};
use plumbago_model::Clock;
use plumbago_render::TimeZone;
use plumbago_store::SeriesSource;
use plumbago_telemetry::Registry;
use tokio::sync::Semaphore;

use crate::activity::Activity;
use crate::admin::Readiness;
use crate::cache::{Cache, KeptAnswers};
use crate::config::{Config, Limits};
use crate::error::ApiError;
use crate::events::EventLog;
use crate::finder::NameFinder;
use crate::limits::LiveLimits;
use crate::memory::{Account, Pool};
use crate::metadata::Metadata;
use crate::meter::RenderPhases;
use crate::points::PointWriter;
use crate::status::{Status, StatusHandles};
use crate::tagging::Tagging;
use crate::users::LiveUsers;

/// The parts of the process that the API port uses.
#[derive(Debug, Clone)]
pub struct Handles {
    /// The index of names.
    pub index: Arc<Index>,
    /// Looks up globs in place of the index, if set. Tags cannot be searched then.
    pub finder: Option<Arc<dyn NameFinder>>,
    /// Tells which metrics may have points in a range; set if finds hide the others.
    pub activity: Option<Arc<dyn Activity>>,
    /// Reads the series of a request, with points in memory and in the store.
    pub source: Arc<dyn SeriesSource>,
    /// Adds and removes tagged series.
    pub tagging: Arc<dyn Tagging>,
    /// Takes points that arrive in requests.
    pub writer: Arc<dyn PointWriter>,
    /// Answers the health checks of KairosDB's clients.
    pub readiness: Arc<dyn Readiness>,
    /// Looks up the retention and aggregation of metrics.
    pub metadata: Arc<dyn Metadata>,
    /// The events that `/events` adds to and reads.
    pub events: Arc<EventLog>,
    /// The current time, for relative times in requests and the age of kept responses.
    pub clock: Arc<dyn Clock>,
    /// The registry to which the port adds its self-metrics.
    pub registry: Registry,
    /// Drops the kept responses of `/render`.
    pub answers: KeptAnswers,
    /// The status of the process; `None` if there is none.
    pub status: Option<StatusHandles>,
}

/// What every endpoint needs: the parts of the process, the settings, and the limits shared by all requests.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) index: Arc<Index>,
    pub(crate) finder: Option<Arc<dyn NameFinder>>,
    pub(crate) activity: Option<Arc<dyn Activity>>,
    pub(crate) source: Arc<dyn SeriesSource>,
    pub(crate) tagging: Arc<dyn Tagging>,
    pub(crate) writer: Arc<dyn PointWriter>,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) metadata: Arc<dyn Metadata>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tag_writes: bool,
    pub(crate) metadata_writes: bool,
    pub(crate) point_writes: bool,
    pub(crate) deletes: bool,
    pub(crate) users: LiveUsers,
    pub(crate) url_prefix: String,
    pub(crate) has_page: bool,
    /// The directory of the page's boards, if there is one.
    pub(crate) boards: Option<PathBuf>,
    /// `None` if the status is not served.
    pub(crate) status: Option<Status>,
    pub(crate) live_limits: LiveLimits,
    pub(crate) zone: TimeZone,
    pub(crate) zone_name: String,
    /// Permits for sweeps over all names. Each sweep occupies a thread while its client reads.
    pub(crate) index_walks: Arc<Semaphore>,
    /// Permits for large searches of the index: one per processor.
    pub(crate) searches: Arc<Semaphore>,
    /// Permits for searches by `finder`.
    pub(crate) finds: Arc<Semaphore>,
    /// Kept responses of `/render`.
    pub(crate) cache: Cache,
    /// Histograms of the time that each phase of a render takes.
    pub(crate) phases: RenderPhases,
    /// Memory that render requests share.
    pub(crate) memory: Arc<Pool>,
    /// Permits for large evaluations: one per processor.
    pub(crate) evaluations: Arc<Semaphore>,
    /// Permits for drawing pictures: one per processor.
    pub(crate) pictures: Arc<Semaphore>,
    /// Permits for parsing large bodies of points: one per processor.
    pub(crate) parses: Arc<Semaphore>,
    /// Permits for the memory of bodies of points, in KiB.
    pub(crate) write_memory: Arc<Semaphore>,
    /// The number of permits in `write_memory`.
    pub(crate) write_memory_kib: u32,
}

/// Smallest total memory for bodies of points, in KiB. The total is larger if eight bodies of the largest
/// size need more.
const WRITE_MEMORY_KIB: usize = 64 << 10;
/// Number of permits in [`Api::index_walks`].
const INDEX_WALKS: usize = 4;
/// Number of permits in [`Api::finds`].
const FINDS: usize = 16;

impl Api {
    pub(crate) fn new(config: &Config, limits: LiveLimits, users: LiveUsers, handles: &Handles) -> Self {
        let write_memory_kib = WRITE_MEMORY_KIB.max(config.limits.body.bytes().saturating_mul(8) / 1024);
        let write_memory_kib = u32::try_from(write_memory_kib).unwrap_or(u32::MAX).min(u32::MAX >> 3);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let memory_of_all = limits.load().memory_of_all();
        Self {
            index: Arc::clone(&handles.index),
            finder: handles.finder.clone(),
            activity: handles.activity.clone(),
            source: Arc::clone(&handles.source),
            tagging: Arc::clone(&handles.tagging),
            writer: Arc::clone(&handles.writer),
            readiness: Arc::clone(&handles.readiness),
            metadata: Arc::clone(&handles.metadata),
            events: Arc::clone(&handles.events),
            clock: Arc::clone(&handles.clock),
            tag_writes: config.tag_writes,
            metadata_writes: config.metadata_writes,
            point_writes: config.point_writes,
            deletes: config.deletes,
            users,
            url_prefix: config.url_prefix.clone(),
            has_page: config.page.enabled,
            boards: Some(config.page.boards.clone()).filter(|path| !path.as_os_str().is_empty()),
            status: Status::new(&config.page, handles.status.as_ref(), &handles.registry),
            live_limits: limits,
            zone: TimeZone::named(&config.time_zone).unwrap_or_default(),
            zone_name: config.time_zone.clone(),
            index_walks: Arc::new(Semaphore::new(INDEX_WALKS)),
            searches: Arc::new(Semaphore::new(processors)),
            finds: Arc::new(Semaphore::new(FINDS)),
            cache: Cache::new(&config.cache, handles.answers.clone(), &handles.registry),
            phases: RenderPhases::new(&handles.registry),
            memory: Arc::new(Pool::new(
                memory_of_all,
                handles.registry.gauge(
                    "plumbago_api_render_memory_bytes",
                    "memory that render requests hold for their series",
                    &[],
                ),
            )),
            evaluations: Arc::new(Semaphore::new(processors)),
            pictures: Arc::new(Semaphore::new(processors)),
            parses: Arc::new(Semaphore::new(processors)),
            write_memory: Arc::new(Semaphore::new(write_memory_kib as usize)),
            write_memory_kib,
        }
    }

    /// The limits for requests that begin now.
    pub(crate) fn limits(&self) -> Arc<Limits> {
        self.live_limits.load()
    }

    /// An account for the memory of one request.
    pub(crate) fn account(&self) -> Account {
        let limits = self.limits();
        self.memory.set_max(limits.memory_of_all());
        Account::new(&self.memory, limits.memory)
    }

    /// Fails if `finder` looks names up: only the index in memory can search tags.
    pub(crate) fn check_tags(&self) -> Result<(), ApiError> {
        match self.finder {
            None => Ok(()),
            Some(_) => Err(ApiError::Forbidden(
                "tag searches need index.mode = \"memory\"; ask a server with that setting",
            )),
        }
    }

    pub(crate) fn find_limits(&self) -> FindLimits {
        let limits = self.limits();
        FindLimits { results_max: limits.find_results, visited_max: limits.find_visited }
    }
}
