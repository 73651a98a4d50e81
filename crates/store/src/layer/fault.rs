//! A wrapper that makes the calls of a store fail, on command or at random. It is used to test the callers.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, MetricConfig, MetricId, Stage};

use crate::{
    BlockLayout, Capabilities, Column, ErrorKind, FlushBatch, FlushStore, MetaPage, MetadataStore,
    MetricMeta, PointStore, ReadRequest, SlotRange, Store, StoreError, WriteBatch, WriteLimits,
};

/// Decides which calls fail. Clones share the settings.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<FaultPlan>);

#[derive(Debug)]
struct FaultPlan {
    /// Whether every call fails.
    down: AtomicBool,
    /// Number of calls that will fail next.
    next: AtomicU32,
    /// Number of calls that succeed before every call fails; `u32::MAX` for no limit.
    left: AtomicU32,
    /// The probability of a failure, as a fraction of 2^32.
    chance: AtomicU32,
    /// The state of the random generator.
    random: AtomicU64,
    /// Number of calls that were made to fail.
    injected: AtomicU64,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self {
            down: AtomicBool::default(),
            next: AtomicU32::default(),
            left: AtomicU32::new(u32::MAX),
            chance: AtomicU32::default(),
            random: AtomicU64::default(),
            injected: AtomicU64::default(),
        }
    }
}

impl Faults {
    /// Settings with which no call fails until a fault is switched on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Settings with which each call fails with this probability (0 to 1). The same seed and the same calls
    /// give the same faults.
    pub fn by_chance(seed: u64, chance: f64) -> Self {
        let faults = Self::default();
        faults.0.random.store(seed, Ordering::Relaxed);
        faults.set_chance(chance);
        faults
    }

    /// Changes the probability of a failure (0 to 1).
    pub fn set_chance(&self, chance: f64) {
        self.0.chance.store((chance.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32, Ordering::Relaxed);
    }

    /// Makes the next `calls` calls fail.
    pub fn fail_next(&self, calls: u32) {
        self.0.next.store(calls, Ordering::Relaxed);
    }

    /// Makes every call of the store fail, until this method is called with `false`.
    pub fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::Relaxed);
    }

    /// Lets this many calls succeed; then every call fails. The first failing call may nevertheless take
    /// effect.
    pub fn set_down_after(&self, calls: u32) {
        self.0.left.store(calls, Ordering::Relaxed);
    }

    /// Number of calls that were made to fail.
    pub fn injected(&self) -> u64 {
        self.0.injected.load(Ordering::Relaxed)
    }

    /// Decides the outcome of the next call.
    fn draw(&self) -> Fate {
        let plan = &*self.0;
        let random = splitmix(plan.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed));
        let counted = plan.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left != u32::MAX).then(|| left.saturating_sub(1))
        });
        if counted == Ok(0) {
            let is_last = !plan.down.swap(true, Ordering::Relaxed);
            plan.injected.fetch_add(1, Ordering::Relaxed);
            return if is_last && random >> 63 == 1 { Fate::LoseAnswer } else { Fate::Refuse };
        }
        let commanded = plan.down.load(Ordering::Relaxed)
            || plan.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok();
        let chance = plan.chance.load(Ordering::Relaxed);
        if !commanded && (chance == 0 || (random as u32) > chance) {
            return Fate::Succeed;
        }
        plan.injected.fetch_add(1, Ordering::Relaxed);
        // In half of the random failures the call takes effect and only its answer is lost.
        if !commanded && random >> 63 == 1 { Fate::LoseAnswer } else { Fate::Refuse }
    }
}

#[derive(PartialEq)]
enum Fate {
    Succeed,
    Refuse,
    LoseAnswer,
}

fn splitmix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A store whose calls fail as [`Faults`] decides: with [`ErrorKind::Unavailable`] and without effect, or
/// with [`ErrorKind::Timeout`] after they took effect.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S> Faulty<S> {
    /// Wraps `inner`, whose calls fail as `faults` decides.
    pub fn new(inner: S, faults: Faults) -> Self {
        Self { inner, faults }
    }

    fn before(&self, operation: &str) -> Result<Fate, StoreError> {
        match self.faults.draw() {
            Fate::Refuse => {
                Err(StoreError::new(ErrorKind::Unavailable, format!("{operation} (injected fault)")))
            }
            fate => Ok(fate),
        }
    }

    fn after<T>(fate: &Fate, operation: &str, result: T) -> Result<T, StoreError> {
        if *fate == Fate::LoseAnswer {
            return Err(StoreError::new(ErrorKind::Timeout, format!("{operation} (injected fault)")));
        }
        Ok(result)
    }
}

impl<S: Store> Store for Faulty<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

#[boxed_futures]
impl<S: PointStore> PointStore for Faulty<S> {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let fate = self.before("write points")?;
        self.inner.write(batch).await?;
        Self::after(&fate, "write points", ())
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let fate = self.before("read points")?;
        let columns = self.inner.read(request).await?;
        Self::after(&fate, "read points", columns)
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let fate = self.before("read pending rows")?;
        let columns = self.inner.read_pending(request).await?;
        Self::after(&fate, "read pending rows", columns)
    }

    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        const OPERATION: &str = "subtract the rows of other writers";
        let fate = self.before(OPERATION)?;
        // If the answer is lost, the batch stays unchanged, so that the call may be repeated.
        let mut changed = batch.clone();
        self.inner.subtract_other_writers(&mut changed).await?;
        *batch = Self::after(&fate, OPERATION, changed)?;
        Ok(())
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        let fate = self.before("delete points")?;
        self.inner.delete(metrics).await?;
        Self::after(&fate, "delete points", ())
    }

    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError> {
        const OPERATION: &str = "delete ranges of points";
        let fate = self.before(OPERATION)?;
        self.inner.delete_ranges(ranges).await?;
        Self::after(&fate, OPERATION, ())
    }

    fn write_limits(&self) -> WriteLimits {
        self.inner.write_limits()
    }
}

impl<S: FlushStore> FlushStore for Faulty<S> {
    fn layout(&self) -> BlockLayout {
        self.inner.layout()
    }

    fn commit(&self, batch: &FlushBatch) -> Result<(), StoreError> {
        let fate = self.before("commit a flush")?;
        self.inner.commit(batch)?;
        Self::after(&fate, "commit a flush", ())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let fate = self.before("sync")?;
        self.inner.sync()?;
        Self::after(&fate, "sync", ())
    }

    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError> {
        // A scan fails before its first row or not at all: after a lost answer, the retry would visit every
        // row a second time.
        self.before("scan state rows")?;
        self.inner.scan_states(visit)
    }

    fn damaged_states(&self) -> Vec<(MetricId, MetricId)> {
        self.inner.damaged_states()
    }

    fn report_damaged_states(&self, text: &str, lost: u64) {
        self.inner.report_damaged_states(text, lost);
    }

    fn note_numbers(&self, count: usize, numbers: &mut dyn Iterator<Item = (u32, MetricId)>) {
        self.inner.note_numbers(count, numbers);
    }

    fn noted_numbers(&self, visit: &mut dyn FnMut(u32, MetricId)) {
        self.inner.noted_numbers(visit);
    }

    fn note_held(&self, points: u64) -> Result<(), StoreError> {
        self.inner.note_held(points)
    }

    fn note_checkpoint(&self, stamp: [u8; 16]) -> Result<(), StoreError> {
        self.inner.note_checkpoint(stamp)
    }

    fn checkpoint(&self) -> Result<Option<[u8; 16]>, StoreError> {
        self.inner.checkpoint()
    }

    fn take_held(&self) -> Result<Option<u64>, StoreError> {
        self.inner.take_held()
    }
}

#[boxed_futures]
impl<S: MetadataStore> MetadataStore for Faulty<S> {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        let fate = self.before("create metrics")?;
        self.inner.create(metrics).await?;
        Self::after(&fate, "create metrics", ())
    }

    async fn create_new(
        &self,
        metrics: &[MetricMeta],
    ) -> Result<Vec<(usize, Arc<MetricConfig>)>, StoreError> {
        let fate = self.before("create metrics")?;
        let others = self.inner.create_new(metrics).await?;
        Self::after(&fate, "create metrics", others)
    }

    async fn set_aggregation(&self, name: &str, method: Aggregation) -> Result<(), StoreError> {
        let fate = self.before("change a metric")?;
        self.inner.set_aggregation(name, method).await?;
        Self::after(&fate, "change a metric", ())
    }

    async fn set_configs(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        let fate = self.before("change metrics")?;
        self.inner.set_configs(metrics).await?;
        Self::after(&fate, "change metrics", ())
    }

    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        let fate = self.before("look up metrics")?;
        let found = self.inner.get(names).await?;
        Self::after(&fate, "look up metrics", found)
    }

    async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        let fate = self.before("delete metrics")?;
        self.inner.delete(names).await?;
        Self::after(&fate, "delete metrics", ())
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        let fate = self.before("scan metrics")?;
        let page = self.inner.scan(position, limit).await?;
        Self::after(&fate, "scan metrics", page)
    }

    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        let fate = self.before("hide series")?;
        self.inner.hide(names, at).await?;
        Self::after(&fate, "hide series", ())
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        let fate = self.before("show series")?;
        self.inner.show(names).await?;
        Self::after(&fate, "show series", ())
    }

    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        let fate = self.before("list hidden series")?;
        let names = self.inner.hidden().await?;
        Self::after(&fate, "list hidden series", names)
    }

    async fn sync_names(&self) -> Result<(), StoreError> {
        let fate = self.before("sync names")?;
        self.inner.sync_names().await?;
        Self::after(&fate, "sync names", ())
    }
}
