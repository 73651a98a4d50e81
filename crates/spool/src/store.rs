//! The store that the engine commits to and reads from.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::SpoolError;
use crate::queue::{Edit, Id, Slice, Spool, State};
use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricId, Stage};
use plumbago_store::{
    BlockLayout, Capabilities, Column, ErrorKind, FlushBatch, FlushStore, PointStore, ReadRequest,
    RemotePoints, RowCount, Run, SlotRange, Store, StoreError, WriteBatch, WriteLimits, joined,
};
use plumbago_telemetry::Registry;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::health::{Health, SenderStatus};
use crate::overlay::{self, Overlay};
use crate::slice;
use crate::stats::Stats;

const DRAIN_STEP: Duration = Duration::from_millis(20);

/// If a pending row is older than this, in microseconds, and the remote store has another value of its slot, the
/// store is asked which is later. Rows of a store that can be reached are sent before that, so it is rarely asked. For
/// reads that decide on a write the age does not matter: what another writer has stored must go into the windows at
/// once.
const DOUBT_AFTER_US: i64 = 60_000_000;

/// How long an answer to a peer that asks for pending rows waits for the remote store. It is short, because
/// the peer does not wait for a late answer (`cluster.timeout`, by default a second).
const PEERS_WAIT: Duration = Duration::from_millis(300);

/// Largest number of metrics whose removed slots are remembered after a deletion has failed, because the
/// deletion is repeated soon.
const UNBURIED_MAX: usize = 65_536;

/// Metrics that one edit of the spool changes. Commits wait meanwhile.
const FORGOTTEN_AT_ONCE: usize = 256;

/// A remote store behind a spool. Clones share it.
#[derive(Debug, Clone)]
pub struct SpooledStore {
    pub(crate) spool: Spool,
    pub(crate) remote: Arc<dyn RemotePoints>,
    layout: BlockLayout,
    pub(crate) stats: Stats,
    pub(crate) health: Arc<Health>,
    /// Wakes a sender that waits for new rows.
    pub(crate) urgent: Arc<Notify>,
    /// Wakes a sender that has nothing to send again.
    pub(crate) returned: Arc<Notify>,
    /// The slots that deletions have removed from the spool and that the remote store has not deleted yet.
    unburied: Arc<Mutex<HashMap<Id, Vec<SlotRange>>>>,
}

impl SpooledStore {
    /// Puts `spool` in front of `remote`. `layout` defines how the engine divides raw slots into blocks.
    /// Nothing is sent until a [`crate::Sender`] runs.
    pub fn new(
        spool: Spool,
        remote: Arc<dyn RemotePoints>,
        layout: BlockLayout,
        registry: &Registry,
    ) -> Self {
        Self {
            spool,
            remote,
            layout,
            stats: Stats::new(registry),
            health: Arc::default(),
            urgent: Arc::default(),
            returned: Arc::default(),
            unburied: Arc::default(),
        }
    }

    /// The queue on the disk.
    pub fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Sends all retained rows again that these servers may have lost, with the same timestamps. Returns the
    /// bytes of the slices that are queued to be sent again.
    ///
    /// # Errors
    /// If the spool cannot be written.
    pub fn resend(&self, servers: &[Uuid]) -> Result<u64, StoreError> {
        let bytes = self.spool.resend(servers).map_err(|error| failed("send again", error))?;
        self.returned.notify_one();
        Ok(bytes)
    }

    /// Like [`SpooledStore::resend`], but for all servers, and only with the rows that were acknowledged since
    /// `since_us` (microseconds since the epoch).
    ///
    /// # Errors
    /// If the spool cannot be written.
    pub fn replay(&self, since_us: i64) -> Result<u64, StoreError> {
        let bytes = self.spool.resend_since(since_us).map_err(|error| failed("send again", error))?;
        self.returned.notify_one();
        Ok(bytes)
    }

    /// Removes the rows of metrics that another daemon has deleted, if they were committed before the deletion. Each
    /// metric comes with its time, in microseconds since the epoch. Otherwise these rows would arrive afterwards where
    /// the deletion has found nothing to delete. Blocks.
    ///
    /// # Errors
    /// If the spool cannot be changed. The call may be repeated.
    pub fn forget_before(&self, deleted: &[(MetricId, i64)]) -> Result<(), StoreError> {
        for deleted in deleted.chunks(FORGOTTEN_AT_ONCE) {
            let ids: Vec<Id> = deleted.iter().map(|(id, _)| id.0).collect();
            let edited = self.spool.edit(&ids, &mut |place, timestamp_us, _| {
                if timestamp_us < deleted[place].1 { Edit::Remove } else { Edit::Keep }
            });
            edited.map_err(|error| failed("delete points", error))?;
        }
        Ok(())
    }

    /// Removes rows of these metrics with `forget`, which returns their slots, and then takes the timestamp
    /// of the deletion. This timestamp is later than that of every row so far, so that the deletion overrides
    /// rows in flight. Returns the timestamp, and the slots of which rows may be in flight.
    async fn forget(
        &self,
        operation: &'static str,
        ids: &BTreeSet<Id>,
        forget: impl FnOnce(&Spool) -> Result<Vec<SlotRange>, SpoolError> + Send + 'static,
    ) -> Result<(i64, Vec<SlotRange>), StoreError> {
        let this = self.clone();
        let timestamp_us = blocking(operation, move || {
            let failed = |error| failed(operation, error);
            let removed = forget(&this.spool).map_err(failed)?;
            let mut unburied = this.unburied();
            for range in removed {
                if unburied.len() < UNBURIED_MAX || unburied.contains_key(&range.id.0) {
                    unburied.entry(range.id.0).or_default().push(range);
                }
            }
            drop(unburied);
            this.spool.timestamp().map_err(failed)
        })
        .await?;
        let unburied = self.unburied();
        Ok((timestamp_us, ids.iter().filter_map(|id| unburied.get(id)).flatten().copied().collect()))
    }

    fn unburied(&self) -> MutexGuard<'_, HashMap<Id, Vec<SlotRange>>> {
        self.unburied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called after the remote store has deleted what was removed from the spool.
    fn bury(&self, ids: &BTreeSet<Id>) {
        let mut unburied = self.unburied();
        ids.iter().for_each(|id| drop(unburied.remove(id)));
    }

    /// The state of the sender.
    pub fn status(&self) -> SenderStatus {
        self.health.status(self.spool.stats())
    }

    /// Waits until every pending row is acknowledged, for at most `timeout`. Deferred rows do not count.
    /// Returns `false` on timeout.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.spool.hurry();
        self.urgent.notify_one();
        let acknowledged = async {
            loop {
                let stats = self.spool.stats();
                if stats.pending_rows <= stats.deferred_rows {
                    break;
                }
                tokio::time::sleep(DRAIN_STEP).await;
            }
        };
        tokio::time::timeout(timeout, acknowledged).await.is_ok()
    }

    /// For each range, the parts of which the spool has slots. The parts may overlap.
    async fn occupied_here(
        &self,
        ranges: &[SlotRange],
        include_retained: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        let (spool, wanted) = (self.spool.clone(), ranges.to_vec());
        blocking("read the spool", move || {
            overlay::occupied(&spool, &wanted, include_retained)
                .map_err(|error| failed("read the spool", error))
        })
        .await
    }

    async fn overlay(&self, request: &ReadRequest) -> Result<Overlay, StoreError> {
        let spool = self.spool.clone();
        let wanted = ReadRequest { peers: Vec::new(), ..request.clone() };
        let overlay = blocking("read the spool", move || {
            Overlay::read(&spool, &wanted).map_err(|error| failed("read the spool", error))
        })
        .await?;
        self.stats.damaged.add(overlay.damaged);
        Ok(overlay)
    }

    /// Removes those slots from the overlay for which the remote store has a value that was written later.
    /// Returns whether there were any. If the store cannot tell now, the slots stay, unless the read decides
    /// on a write.
    async fn yield_to_later(
        &self,
        overlay: &mut Overlay,
        request: &ReadRequest,
        remote: &[Column],
    ) -> Result<bool, StoreError> {
        let is_decisive = request.include_retained;
        let before_us =
            if is_decisive { i64::MAX } else { self.spool.now_us().saturating_sub(DOUBT_AFTER_US) };
        let parts = overlay.doubtful(request, remote, before_us);
        if parts.is_empty() {
            return Ok(false);
        }
        let ranges: Vec<SlotRange> = parts.iter().map(|(_, part)| *part).collect();
        match self.remote.written_at(&ranges).await {
            Ok(times) => Ok(overlay.yield_to(request, &parts, &times)),
            // The request for the times asks more replicas than a read for a graph does. The graph must not fail
            // because of that.
            Err(error) if !is_decisive && error.is_transient() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes those slots from the overlay for a peer that are older than `DOUBT_AFTER_US` and for which the
    /// remote store has a later value. If the store does not answer, the slots stay.
    async fn yield_old(&self, overlay: &mut Overlay, request: &ReadRequest) {
        let parts = overlay.older(request, self.spool.now_us().saturating_sub(DOUBT_AFTER_US));
        // While the server acknowledges nothing, all rows become old, and it would not answer this request
        // either.
        if parts.is_empty() || self.health.is_failing() {
            return;
        }
        let ranges: Vec<SlotRange> = parts.iter().map(|(_, part)| *part).collect();
        if let Ok(Ok(times)) = tokio::time::timeout(PEERS_WAIT, self.remote.written_at(&ranges)).await {
            overlay.yield_to(request, &parts, &times);
        }
    }

    fn take(&self, rows: &WriteBatch, states: &[State<'_>]) -> Result<(), StoreError> {
        let encoded = encode(rows);
        let slices: Vec<Slice<'_>> =
            encoded.iter().map(|(id, rows, bytes)| Slice { id: *id, rows: *rows, bytes }).collect();
        self.spool.commit(&slices, states).map_err(|error| failed("commit a flush", error))?;
        Ok(())
    }
}

/// The runs of each metric as a slice (id, rows, bytes), in the order of ids.
fn encode(rows: &WriteBatch) -> Vec<(Id, u32, Vec<u8>)> {
    let mut order: Vec<usize> = (0..rows.runs.len()).collect();
    // The sort is stable: of a metric's runs, later ones win.
    order.sort_by_key(|at| rows.runs[*at].id);
    let slices = order.chunk_by(|a, b| rows.runs[*a].id == rows.runs[*b].id).map(|of_one| {
        let mut bytes = Vec::with_capacity(64);
        slice::begin(&mut bytes);
        let mut known = 0;
        for run in of_one.iter().map(|at| &rows.runs[*at]) {
            let values = rows.values(run);
            known += values.iter().filter(|value| !value.is_nan()).count();
            slice::push(&mut bytes, run, values, rows.counts(run));
        }
        (rows.runs[of_one[0]].id.0, known as u32, bytes)
    });
    slices.filter(|(_, known, _)| *known > 0).collect()
}

impl Store for SpooledStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            interval_flushes: true,
            several_writers: true,
            pending_rows: true,
            ..Capabilities::default()
        }
    }
}

impl FlushStore for SpooledStore {
    fn layout(&self) -> BlockLayout {
        self.layout
    }

    fn commit(&self, batch: &FlushBatch) -> Result<(), StoreError> {
        let states: Vec<State<'_>> =
            batch.states.iter().map(|state| State { id: state.id.0, bytes: &state.bytes }).collect();
        self.take(&batch.rows, &states)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.spool.sync().map_err(|error| failed("sync the spool", error))
    }

    fn scan_states(&self, visit: &mut dyn FnMut(MetricId, &[u8])) -> Result<(), StoreError> {
        self.spool
            .scan_states(&mut |id, bytes| visit(MetricId(id), bytes))
            .map_err(|error| failed("scan state rows", error))
    }
}

#[boxed_futures]
impl PointStore for SpooledStore {
    async fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let (store, batch) = (self.clone(), batch.clone());
        blocking("write points", move || store.take(&batch, &[])).await
    }

    async fn read_pending(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let mut overlay = self.overlay(request).await?;
        self.yield_old(&mut overlay, request).await;
        Ok(overlay.alone(request))
    }

    /// The remote store is not asked.
    async fn occupied_pending(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        self.occupied_here(ranges, false).await
    }

    /// Reads the spool first, so that rows which are acknowledged in between are in the answer of the remote
    /// store.
    async fn read(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let mut overlay = self.overlay(request).await?;
        let mut columns = self.remote.read_own(request).await?;
        if self.yield_to_later(&mut overlay, request, &columns).await? {
            // The later values may have been written after the first read, so read again.
            columns = self.remote.read_own(request).await?;
        }
        overlay.over(&mut columns);
        Ok(columns)
    }

    /// The spool is asked first, as for a read.
    async fn occupied(
        &self,
        ranges: &[SlotRange],
        is_decisive: bool,
    ) -> Result<Vec<Vec<Range<u32>>>, StoreError> {
        let held = self.occupied_here(ranges, true).await?;
        let stored = self.remote.occupied(ranges, is_decisive).await?;
        Ok(stored.into_iter().zip(held).map(|(parts, held)| joined([parts, held].concat())).collect())
    }

    async fn delete(&self, metrics: &[(MetricId, Vec<Stage>)]) -> Result<(), StoreError> {
        if metrics.is_empty() {
            return Ok(());
        }
        let doomed = metrics.to_vec();
        let ids = metrics.iter().map(|(id, _)| id.0).collect();
        let forget = move |spool: &Spool| forget(spool, &doomed);
        let (timestamp_us, pending) = self.forget("delete points", &ids, forget).await?;
        self.remote.delete_at(metrics, &pending, timestamp_us).await?;
        self.bury(&ids);
        Ok(())
    }

    async fn delete_ranges(&self, ranges: &[SlotRange]) -> Result<(), StoreError> {
        if ranges.is_empty() {
            return Ok(());
        }
        let doomed = ranges.to_vec();
        let ids = ranges.iter().map(|range| range.id.0).collect();
        let forget = move |spool: &Spool| forget_ranges(spool, &doomed);
        let (timestamp_us, pending) = self.forget("delete ranges of points", &ids, forget).await?;
        self.remote.delete_ranges_at(ranges, &pending, timestamp_us).await?;
        self.bury(&ids);
        Ok(())
    }

    async fn subtract_other_writers(&self, batch: &mut WriteBatch) -> Result<(), StoreError> {
        self.remote.subtract_other_writers(batch).await
    }

    fn write_limits(&self) -> WriteLimits {
        self.remote.write_limits()
    }
}

/// Removes stages of metrics from the spool. Returns the removed slots.
fn forget(spool: &Spool, metrics: &[(MetricId, Vec<Stage>)]) -> Result<Vec<SlotRange>, SpoolError> {
    let mut stages: HashMap<Id, Vec<Stage>> = HashMap::new();
    for (id, doomed) in metrics {
        stages.entry(id.0).or_default().extend(doomed);
    }
    edit_slices(spool, &stages, |batch, doomed, removed| {
        batch.runs.retain(|run| {
            let is_doomed = doomed.contains(&run.stage);
            if is_doomed {
                note(removed, run, run.first_slot..run.first_slot + run.len);
            }
            !is_doomed
        });
    })
}

/// Removes slots of metrics from the spool. Returns the removed slots.
fn forget_ranges(spool: &Spool, ranges: &[SlotRange]) -> Result<Vec<SlotRange>, SpoolError> {
    let mut doomed: HashMap<Id, Vec<SlotRange>> = HashMap::new();
    for range in ranges {
        doomed.entry(range.id.0).or_default().push(*range);
    }
    edit_slices(spool, &doomed, clear)
}

/// Changes the rows of metrics in the spool. `change` gets the rows of a metric and the deletion for it, and
/// notes the slots that it removes. Damaged rows are not changed.
fn edit_slices<D>(
    spool: &Spool,
    doomed: &HashMap<Id, Vec<D>>,
    change: impl Fn(&mut WriteBatch, &[D], &mut Vec<SlotRange>),
) -> Result<Vec<SlotRange>, SpoolError> {
    let ids: Vec<Id> = doomed.keys().copied().collect();
    let mut batch = WriteBatch::default();
    let mut all = Vec::new();
    spool.edit(&ids, &mut |place, _, bytes| {
        batch.clear();
        if slice::read(MetricId(ids[place]), bytes, &mut batch).is_err() {
            return Edit::Keep;
        }
        let mut removed = Vec::new();
        change(&mut batch, &doomed[&ids[place]], &mut removed);
        if removed.is_empty() {
            return Edit::Keep;
        }
        removed.into_iter().for_each(|range| add(&mut all, range));
        encode(&batch).pop().map_or(Edit::Remove, |(_, rows, bytes)| Edit::Replace(rows, bytes))
    })?;
    Ok(all)
}

/// Makes the slots in these ranges unknown, and notes those that were known.
fn clear(batch: &mut WriteBatch, ranges: &[SlotRange], removed: &mut Vec<SlotRange>) {
    for run in &batch.runs {
        for range in ranges {
            let is_same = range.stage == run.stage && (range.stage_index > 0) == (run.stage_index > 0);
            let from = range.from.max(run.first_slot);
            let until = range.until.min(run.first_slot + run.len);
            if !is_same || from >= until {
                continue;
            }
            let at = (run.at + from - run.first_slot) as usize;
            let places = at..at + (until - from) as usize;
            if batch.values[places.clone()].iter().any(|value| !value.is_nan()) {
                note(removed, run, from..until);
            }
            for place in places {
                (batch.values[place], batch.counts[place]) = (f64::NAN, RowCount::ZERO);
            }
        }
    }
}

/// Notes slots of a run that are removed.
fn note(removed: &mut Vec<SlotRange>, run: &Run, slots: Range<u32>) {
    let Run { id, stage, stage_index, aggregation, .. } = *run;
    removed.push(SlotRange { id, stage, stage_index, aggregation, from: slots.start, until: slots.end });
}

/// Adds a range to a list. The slices of a metric follow each other, so their slots mostly continue the last ones.
fn add(all: &mut Vec<SlotRange>, range: SlotRange) {
    let mut last = all.iter_mut().rev().take(8);
    let continues = |known: &&mut SlotRange| {
        let (a, b) = ((known.id, known.stage, known.stage_index), (range.id, range.stage, range.stage_index));
        a == b && range.from <= known.until && known.from <= range.until
    };
    match last.find(continues) {
        Some(known) => (known.from, known.until) = (known.from.min(range.from), known.until.max(range.until)),
        None => all.push(range),
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    operation: &str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(StoreError::with(ErrorKind::Internal, operation, error)),
    }
}

pub(crate) fn failed(operation: &str, error: SpoolError) -> StoreError {
    let kind = match &error {
        SpoolError::Full { .. } => ErrorKind::Overloaded,
        SpoolError::Unavailable { .. } => ErrorKind::Unavailable,
        SpoolError::Corrupt { .. } => ErrorKind::Corrupt,
        SpoolError::Closed => ErrorKind::Closed,
        SpoolError::Open(_) => ErrorKind::Internal,
    };
    StoreError::with(kind, operation, error)
}
