//! The store itself: the open database, and opening it again after a write has failed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fjall::PersistMode;
use plumbago_model::{Clock, MetricId, Stage};
use plumbago_store::{
    Appetite, BlockLayout, Column, ErrorKind, FlushBatch, FlushStore, PointStore, ReadRequest, SlotRange,
    StoreError, WriteBatch,
};
use plumbago_telemetry::Registry;

use crate::Config;
use crate::columns::Columns;
use crate::damage::{Damage, scan_around_damage};
use crate::open::Open;
use crate::stats::Stats;
use crate::{database, diagnosis};

/// Reads of at most so many rows are done where they are asked for: handing them to another thread
/// would take longer.
const INLINE_ROWS: u64 = 64;

/// Larger reads are shared out, but not in smaller parts than this.
const RANGES_PER_READER: usize = 64;

/// How long opening again waits for operations that still use the old database.
const DRAIN: Duration = Duration::from_secs(30);

/// Between two attempts to open again.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

/// Points, state rows and metadata on the local disk. Cloning shares it.
#[derive(Clone)]
pub struct EmbeddedStore {
    pub(crate) core: Arc<Core>,
}

pub(crate) struct Core {
    pub(crate) dir: PathBuf,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stats: Stats,
    pub(crate) damage: Damage,
    pub(crate) columns: Columns,
    /// `None` while it could not be opened again, or after [`EmbeddedStore::close`].
    open: RwLock<Option<Arc<Open>>>,
    closed: AtomicBool,
    /// A write failed, and fjall takes no more until it is opened again; or it is time to.
    failed: AtomicBool,
    last_reopen: Mutex<Option<Instant>>,
    /// One maintenance run at a time.
    pub(crate) maintenance: Mutex<()>,
}

impl EmbeddedStore {
    /// Opens or creates the store in `dir`. Refuses a directory that is in use, of a newer format, or
    /// damaged beyond what can be skipped, and names the file.
    pub fn open(
        dir: impl AsRef<Path>,
        config: Config,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, StoreError> {
        let dir = dir.as_ref().to_owned();
        std::fs::create_dir_all(&dir)
            .map_err(|error| database::io_error(format!("create {}", dir.display()), error))?;
        let stats = Stats::new(registry);
        let damage = Damage::new(stats.damaged.clone(), clock.clone());
        let core = Core {
            dir,
            columns: Columns::new(config.columns_bytes.0),
            config,
            clock,
            stats,
            damage,
            open: RwLock::new(None),
            closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            last_reopen: Mutex::new(None),
            maintenance: Mutex::new(()),
        };
        let open = Open::from_disk(&core).map_err(|error| name_the_file(&core.dir, error))?;
        *write(&core.open) = Some(Arc::new(open));
        Ok(Self { core: Arc::new(core) })
    }

    /// Syncs and closes the database. Later calls fail as closed.
    pub fn close(&self) -> Result<(), StoreError> {
        let synced = self.sync();
        if let (Ok(()), Some(open)) = (&synced, &*read(&self.core.open)) {
            open.settle();
        }
        self.core.closed.store(true, Ordering::Release);
        self.core.take_open();
        synced
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.core.dir
    }
}

impl Core {
    /// The open database.
    pub(crate) fn open(&self) -> Result<Arc<Open>, StoreError> {
        if let Some(open) = &*read(&self.open) {
            return Ok(open.clone());
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::new(ErrorKind::Closed, "use the store: it is closed"));
        }
        self.reopen()
    }

    /// The open database, for writing: with room on its disk, and opened again if a write had failed.
    pub(crate) fn open_to_write(&self) -> Result<Arc<Open>, StoreError> {
        self.check_room()?;
        if self.failed.load(Ordering::Acquire) { self.reopen() } else { self.open() }
    }

    /// Remembers that fjall refuses writes until it is opened again.
    pub(crate) fn watch<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result
            && matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Corrupt)
        {
            self.failed.store(true, Ordering::Release);
        }
        result
    }

    /// Refuses early: fjall writes tables behind a commit's back, and stops for good when that fails.
    fn check_room(&self) -> Result<(), StoreError> {
        let path = self.dir.display();
        let free = database::free_bytes(&self.dir)
            .map_err(|error| database::io_error(format!("look at the disk of {path}"), error))?;
        let wanted = self.config.min_free_bytes;
        if free >= wanted.0 {
            return Ok(());
        }
        self.stats.refused_no_room.add(1);
        let operation =
            format!("write to {path}: its disk has {} MiB left, and min_free_bytes is {wanted}", free >> 20);
        Err(StoreError::new(ErrorKind::Unavailable, operation))
    }

    /// Opens the database anew; reads and commits wait meanwhile.
    pub(crate) fn renew(&self) -> Result<(), StoreError> {
        self.failed.store(true, Ordering::Release);
        self.reopen().map(drop)
    }

    fn reopen(&self) -> Result<Arc<Open>, StoreError> {
        let mut slot = write(&self.open);
        // Someone else may have done it meanwhile.
        if !self.failed.load(Ordering::Acquire)
            && let Some(open) = &*slot
        {
            return Ok(open.clone());
        }
        let mut last = lock(&self.last_reopen);
        if last.is_some_and(|last| last.elapsed() < REOPEN_EVERY) {
            let operation =
                format!("use {}: a write has failed, and it is not open again yet", self.dir.display());
            return Err(StoreError::new(ErrorKind::Unavailable, operation));
        }
        *last = Some(Instant::now());
        if let Some(old) = slot.take()
            && let Err(old) = drain(old)
        {
            *slot = Some(old);
            return Err(StoreError::new(
                ErrorKind::Unavailable,
                "open the store again: it is still being read",
            ));
        }
        let open = Arc::new(Open::from_disk(self)?);
        // What a failed write left may have been read, and not come back.
        self.columns.clear();
        tracing::info!(dir = %self.dir.display(), "opened the store again");
        self.stats.reopened.add(1);
        self.failed.store(false, Ordering::Release);
        *slot = Some(open.clone());
        Ok(open)
    }

    fn take_open(&self) {
        if let Some(open) = write(&self.open).take()
            && drain(open).is_err()
        {
            tracing::warn!(dir = %self.dir.display(), "closed the store while it was still being read");
        }
    }
}

/// Says which file is damaged, where the error does not.
fn name_the_file(dir: &Path, error: StoreError) -> StoreError {
    if error.kind != ErrorKind::Corrupt || error.operation.contains(&*dir.to_string_lossy()) {
        return error;
    }
    match diagnosis::find(dir) {
        Some(damaged) => StoreError::with(error.kind, format!("open {}: {damaged}", dir.display()), error),
        None => error,
    }
}

/// Drops the database once nobody else uses it, so that its lock is free afterwards.
fn drain(open: Arc<Open>) -> Result<(), Arc<Open>> {
    open.closing.store(true, Ordering::Release);
    let start = Instant::now();
    while Arc::strong_count(&open) > 1 {
        if start.elapsed() > DRAIN {
            open.closing.store(false, Ordering::Release);
            return Err(open);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(open);
    Ok(())
}

impl EmbeddedStore {
    /// Reads beside the asynchronous threads, from now on.
    fn start_reader(
        &self,
        ranges: &[SlotRange],
        forgotten_too: bool,
    ) -> impl Future<Output = Result<Vec<Column>, StoreError>> + Send + use<> {
        let store = self.clone();
        let request = ReadRequest { ranges: ranges.to_vec(), forgotten_too, ..Default::default() };
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
        let open = self.core.open()?;
        let synced = open.fjall.persist(PersistMode::SyncData);
        self.core.watch(
            synced.map_err(|error| database::error(format!("sync {}", self.core.dir.display()), error)),
        )
    }

    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError> {
        let open = self.core.open()?;
        scan_around_damage(&open.state, &[], &self.core.damage, |key, bytes| {
            match key.try_into() {
                Ok(id) => visit(MetricId(id), bytes),
                Err(_) => {
                    self.core.damage.report(&open.state, &key.escape_ascii(), &"no state row has such a key");
                }
            }
            true
        });
        Ok(())
    }
}

#[async_trait]
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
        let parts: Vec<_> =
            request.ranges.chunks(share).map(|part| self.start_reader(part, request.forgotten_too)).collect();
        let mut columns = Vec::with_capacity(request.ranges.len());
        for part in parts {
            columns.extend(part.await?);
        }
        Ok(columns)
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        let (store, metrics) = (self.clone(), metrics.to_vec());
        run_blocking("delete points", move || {
            let open = store.core.open_to_write()?;
            store.core.watch(crate::delete::delete(&store.core, &open, &metrics))
        })
        .await
    }

    fn appetite(&self) -> Appetite {
        Appetite { concurrency: 2, slots_per_call: 65_536 }
    }
}

/// Starts blocking work beside the asynchronous threads.
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

// A panic of another thread leaves the guarded values whole: they are replaced, not edited.

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
