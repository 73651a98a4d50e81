//! A store that fails on command or by seeded chance, to test what its callers do then.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use async_trait::async_trait;
use plumbago_model::{MetricId, Stage};

use crate::{
    Appetite, BlockLayout, Column, ErrorKind, FlushBatch, FlushStore, MetaPage, MetadataStore, MetricMeta,
    PointStore, ReadRequest, StoreError, WriteBatch,
};

/// Decides which calls fail. Shared by clones.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Plan>);

#[derive(Debug, Default)]
struct Plan {
    /// Every call fails while it is set.
    down: AtomicBool,
    /// So many of the next calls fail.
    next: AtomicU32,
    /// Chance of a failure, in 1 / 2^32.
    chance: AtomicU32,
    random: AtomicU64,
    injected: AtomicU64,
}

impl Faults {
    /// No faults until told.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls fail with this chance (0…1); the same seed and calls give the same faults.
    pub fn by_chance(seed: u64, chance: f64) -> Self {
        let faults = Self::default();
        faults.0.random.store(seed, Ordering::Relaxed);
        faults.set_chance(chance);
        faults
    }

    /// Changes the chance of a failure.
    pub fn set_chance(&self, chance: f64) {
        self.0.chance.store((chance.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32, Ordering::Relaxed);
    }

    /// The next `calls` calls fail.
    pub fn fail_next(&self, calls: u32) {
        self.0.next.store(calls, Ordering::Relaxed);
    }

    /// While `down`, every call fails.
    pub fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::Relaxed);
    }

    /// How many calls were made to fail.
    pub fn injected(&self) -> u64 {
        self.0.injected.load(Ordering::Relaxed)
    }

    /// What happens to the next call.
    fn draw(&self) -> Fate {
        let plan = &*self.0;
        let random = splitmix(plan.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed));
        let commanded = plan.down.load(Ordering::Relaxed)
            || plan.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok();
        let chance = plan.chance.load(Ordering::Relaxed);
        if !commanded && (chance == 0 || (random as u32) > chance) {
            return Fate::Succeed;
        }
        plan.injected.fetch_add(1, Ordering::Relaxed);
        // Half of the accidents lose the answer of a call that was carried out.
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

/// A store under [`Faults`]: calls fail as [`ErrorKind::Unavailable`] without effect, or as
/// [`ErrorKind::Timeout`] after they took effect.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S> Faulty<S> {
    /// Puts `inner` under `faults`.
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

#[async_trait]
impl<S: PointStore> PointStore for Faulty<S> {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let fate = self.before("write points")?;
        let done = self.inner.write(batch).await?;
        Self::after(&fate, "write points", done)
    }

    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let fate = self.before("read points")?;
        let columns = self.inner.read(request).await?;
        Self::after(&fate, "read points", columns)
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        let fate = self.before("delete points")?;
        let done = self.inner.delete(metrics).await?;
        Self::after(&fate, "delete points", done)
    }

    fn appetite(&self) -> Appetite {
        self.inner.appetite()
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
        // Refused or not at all: a scan that fails half way would visit rows twice on the retry.
        self.before("scan state rows")?;
        self.inner.scan_states(visit)
    }
}

#[async_trait]
impl<S: MetadataStore> MetadataStore for Faulty<S> {
    async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        let fate = self.before("create metrics")?;
        let done = self.inner.create(metrics).await?;
        Self::after(&fate, "create metrics", done)
    }

    async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        let fate = self.before("look up metrics")?;
        let found = self.inner.get(names).await?;
        Self::after(&fate, "look up metrics", found)
    }

    async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        let fate = self.before("delete metrics")?;
        let done = self.inner.delete(names).await?;
        Self::after(&fate, "delete metrics", done)
    }

    async fn scan(&self, position: Option<Vec<u8>>, limit: usize) -> Result<MetaPage, StoreError> {
        let fate = self.before("scan metrics")?;
        let page = self.inner.scan(position, limit).await?;
        Self::after(&fate, "scan metrics", page)
    }

    async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        let fate = self.before("hide series")?;
        let done = self.inner.hide(names, at).await?;
        Self::after(&fate, "hide series", done)
    }

    async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        let fate = self.before("show series")?;
        let done = self.inner.show(names).await?;
        Self::after(&fate, "show series", done)
    }

    async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        let fate = self.before("list hidden series")?;
        let names = self.inner.hidden().await?;
        Self::after(&fate, "list hidden series", names)
    }

    fn scans_in_order(&self) -> bool {
        self.inner.scans_in_order()
    }
}
