//! The store: commits, reads and deletions of points, and state rows.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use fjall::PersistMode;
use plumbago_boxed_futures::boxed_futures;
use plumbago_fjall_host::{HeldFile, Host, Settings, damaged_file};
use plumbago_model::{Clock, MetricId, Stage};
use plumbago_store::{
    BlockLayout, Capabilities, Column, ErrorKind, FlushBatch, FlushStore, PointStore, ReadRequest, SlotRange,
    Store, StoreError, WriteBatch, WriteLimits,
};
use plumbago_telemetry::Registry;

use crate::Config;
use crate::columns::Columns;
use crate::damage::DamageReporter;
use crate::errors::host_error;
use crate::locks::lock;
use crate::noted::NotedToday;
use crate::shared::Core;
use crate::stats::Stats;

/// Reads of at most this many rows run on the calling thread: passing them to another thread would take
/// longer.
const INLINE_ROWS: u64 = 64;

/// Larger reads are divided among threads, in parts of at least this many ranges.
const RANGES_PER_READER: usize = 64;

const LOG_BYTES_MAX: u64 = 256 << 20;

/// Points, state rows and metadata on the local disk. Clones share the same store.
#[derive(Clone)]
pub struct EmbeddedStore {
    pub(crate) core: Arc<Core>,
}

impl EmbeddedStore {
    /// Opens or creates the store in `dir`.
    ///
    /// # Errors
    /// `Unavailable` if the directory is in use or the disk fails, `Invalid` if the format is newer or
    /// foreign, `Corrupt` if a damaged file prevents opening; the message names the file.
    pub fn open(
        dir: impl AsRef<Path>,
        config: Config,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, StoreError> {
        let dir = dir.as_ref().to_owned();
        let stats = Stats::new(registry);
        let damage = DamageReporter::new(stats.damaged.clone(), plumbago_telemetry::Damage::of(registry));
        let settings = Settings {
            dir: dir.clone(),
            format: "plumbago-store",
            cache_bytes: config.cache_bytes.0,
            log_bytes_max: LOG_BYTES_MAX,
        };
        let core = Core {
            host: Host::new(settings, "plumbago_store", registry),
            dir,
            columns: Columns::new(config.columns_bytes.0),
            config,
            clock,
            stats,
            damage,
            state_gaps: Mutex::default(),
            state_files: Mutex::default(),
            maintenance: Mutex::new(()),
            noted: NotedToday::default(),
            has_checkpoint: Mutex::default(),
        };
        let open = core.reopen().map_err(|error| name_the_file(&core.dir, error))?;
        *lock(&core.has_checkpoint) = crate::state::checkpoint(&open)?.is_some();
        drop(open);
        Ok(Self { core: Arc::new(core) })
    }

    /// Syncs and closes the database. Later calls fail as closed.
    ///
    /// # Errors
    /// If the sync fails, as for [`FlushStore::sync`]. The database is closed in any case.
    pub fn close(&self) -> Result<(), StoreError> {
        let synced = self.sync();
        if let (Ok(()), Ok(open)) = (&synced, self.core.host.get()) {
            open.write_tables();
        }
        if !self.core.host.close() {
            tracing::warn!(dir = %self.core.dir.display(), "closed the store while reads were still running");
        }
        synced
    }

    /// Why commits are refused after a failed write or sync; `None` while they are accepted.
    pub fn trouble(&self) -> Option<String> {
        self.core.host.trouble()
    }

    /// Preserves the present files of the store by hard links in the new directory `links`, which must be on
    /// the same file system. Commits and reads continue. For backups.
    ///
    /// # Errors
    /// `Unavailable` if the disk fails or the store is being reopened, `Closed` after [`Self::close`].
    pub fn hold(&self, links: &Path) -> Result<Vec<HeldFile>, StoreError> {
        let open = self.core.open()?;
        // No keyspace may be created or deleted meanwhile.
        let _creation = lock(&open.creation);
        plumbago_fjall_host::hold(&self.core.dir, links, Some(&open.fjall)).map_err(host_error)
    }

    /// The directory of the store.
    pub fn dir(&self) -> &Path {
        &self.core.dir
    }
}

/// Adds the damaged file to an error that does not name it.
fn name_the_file(dir: &Path, error: StoreError) -> StoreError {
    if error.kind != ErrorKind::Corrupt || error.operation.contains(&*dir.to_string_lossy()) {
        return error;
    }
    match damaged_file(dir) {
        Some(damaged) => StoreError::with(error.kind, format!("open {}: {damaged}", dir.display()), error),
        None => error,
    }
}

impl EmbeddedStore {
    /// Starts reading on a thread for blocking work.
    fn start_reader(
        &self,
        ranges: &[SlotRange],
        include_retained: bool,
    ) -> impl Future<Output = Result<Vec<Column>, StoreError>> + Send + use<> {
        let store = self.clone();
        let request = ReadRequest { ranges: ranges.to_vec(), include_retained, ..Default::default() };
        run_blocking("read points", move || {
            let open = store.core.open()?;
            crate::read::read(&store.core, &open, &request)
        })
    }
}

impl FlushStore for EmbeddedStore {
    fn layout(&self) -> BlockLayout {
        BlockLayout { raw_slots: self.core.config.block_slots }
    }

    fn commit(&self, batch: &FlushBatch) -> Result<(), StoreError> {
        let open = self.core.open_to_write()?;
        self.core.watch(crate::commit::commit(&self.core, &open, &batch.rows, &batch.states))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let open = self.core.open_to_sync()?;
        let newest = self.core.host.acknowledged();
        self.core.host.sync(&open, PersistMode::SyncData).map_err(host_error)?;
        if newest > 0 {
            crate::synced::note(&self.core.dir, newest);
        }
        Ok(())
    }

    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError> {
        let open = self.core.open()?;
        let gaps = crate::state::scan(&open, &self.core.damage, visit);
        if !gaps.is_empty() {
            *lock(&self.core.state_files) = plumbago_fjall_host::damaged_in(open.state.path());
        }
        let (state, names) = (!gaps.is_empty(), open.names_damaged.load(Ordering::Acquire));
        *lock(&self.core.state_gaps) = gaps;
        let mut rebuilt = Ok(());
        if state {
            rebuilt = crate::rebuild::rebuild_state(&self.core, &open);
        }
        if names && rebuilt.is_ok() {
            rebuilt = crate::rebuild::rebuild_names(&self.core, &open);
        }
        drop(open);
        match self.core.watch(rebuilt) {
            Ok(()) if state || names => self.core.renew(),
            Ok(()) => Ok(()),
            // This can happen on a full disk, for example. The start continues, and the next start tries
            // again.
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "damaged rows could not be rewritten; until that succeeds, newer versions of them are skipped \
                     at each start too"
                );
                Ok(())
            }
        }
    }

    fn damaged_states(&self) -> Vec<(MetricId, MetricId)> {
        lock(&self.core.state_gaps).clone()
    }

    fn note_numbers(&self, count: usize, numbers: &mut dyn Iterator<Item = (u32, MetricId)>) {
        if let Err(error) = crate::numbers::write(&self.core.dir, count, numbers) {
            let dir = self.core.dir.display();
            tracing::warn!(%dir, %error, "cannot write the second copy of the metrics' numbers; without it, a damaged state row loses its points of the journal");
        }
    }

    fn noted_numbers(&self, visit: &mut dyn FnMut(u32, MetricId)) {
        crate::numbers::read(&self.core.dir, visit);
    }

    fn note_held(&self, points: u64) -> Result<(), StoreError> {
        let open = self.core.open_to_write()?;
        crate::state::note_held(&open, points)
    }

    fn note_checkpoint(&self, stamp: [u8; 16]) -> Result<(), StoreError> {
        let open = self.core.open_to_note()?;
        let mut has_checkpoint = lock(&self.core.has_checkpoint);
        self.core.watch(crate::state::note_checkpoint(&open, stamp))?;
        *has_checkpoint = true;
        Ok(())
    }

    fn checkpoint(&self) -> Result<Option<[u8; 16]>, StoreError> {
        let open = self.core.open()?;
        crate::state::checkpoint(&open)
    }

    fn take_held(&self) -> Result<Option<u64>, StoreError> {
        let open = self.core.open()?;
        let mut has_checkpoint = lock(&self.core.has_checkpoint);
        let held = crate::state::take_held(&open)?;
        *has_checkpoint = false;
        Ok(held)
    }

    fn report_damaged_states(&self, text: &str, lost: u64) {
        self.core.damage.retext(&lock(&self.core.state_files), text, lost);
    }
}

impl Store for EmbeddedStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { ordered_scan: true, keeps_checkpoints: true, ..Capabilities::default() }
    }
}

#[boxed_futures]
impl PointStore for EmbeddedStore {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let (store, batch) = (self.clone(), batch.clone());
        run_blocking("write points", move || {
            let open = store.core.open_to_write()?;
            store.core.watch(crate::commit::commit(&store.core, &open, &batch, &[]))
        })
        .await
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        if request.ranges.len() == 1
            && crate::read::rows(request, self.core.config.block_slots) <= INLINE_ROWS
        {
            let open = self.core.open()?;
            return crate::read::read(&self.core, &open, request);
        }
        let readers = std::thread::available_parallelism().map_or(1, usize::from);
        let share = request.ranges.len().div_ceil(readers).max(RANGES_PER_READER);
        let parts: Vec<_> = request
            .ranges
            .chunks(share)
            .map(|part| self.start_reader(part, request.include_retained))
            .collect();
        let mut columns = Vec::with_capacity(request.ranges.len());
        for part in parts {
            columns.extend(part.await?);
        }
        Ok(columns)
    }

    async fn occupied(
        &self,
        ranges: &[SlotRange],
        _is_decisive: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        let (store, ranges) = (self.clone(), ranges.to_vec());
        run_blocking("list blocks", move || {
            let open = store.core.open()?;
            Ok(ranges.iter().map(|range| crate::occupied::occupied(&open, range)).collect())
        })
        .await
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        Ok(request.unknown())
    }

    async fn subtract_other_writers(&self, _batch: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        let (store, metrics) = (self.clone(), metrics.to_vec());
        run_blocking("delete points", move || {
            let open = store.core.open_to_write()?;
            store.core.watch(crate::delete::delete(&store.core, &open, &metrics))
        })
        .await
    }

    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError> {
        let (store, ranges) = (self.clone(), ranges.to_vec());
        run_blocking("delete ranges of points", move || {
            let open = store.core.open_to_write()?;
            store.core.watch(crate::delete::delete_ranges(&store.core, &open, &ranges))
        })
        .await
    }

    fn write_limits(&self) -> WriteLimits {
        WriteLimits { concurrency: 2, slots_per_call: 65_536 }
    }
}

/// Starts work on a thread for blocking work.
pub(crate) fn run_blocking<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> impl Future<Output = Result<T, StoreError>> + Send {
    let task = tokio::task::spawn_blocking(work);
    async move {
        match task.await {
            Ok(result) => result,
            Err(error) => Err(StoreError::with(ErrorKind::Internal, operation, error)),
        }
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EmbeddedStore({})", self.core.dir.display())
    }
}
