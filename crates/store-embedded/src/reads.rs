//! Keeps the day on which each metric was last read: two bytes in the row of its name.
//!
//! The days help an operator to find metrics that are never read. Nothing else depends on them. They are not
//! in the copy of the names: a name that was restored from the copy has no day.

use fjall::PersistMode;
use plumbago_boxed_futures::boxed_futures;
use plumbago_fjall_host::pressure;
use plumbago_model::MetricId;
use plumbago_store::{ReadNotes, StoreError};

use crate::errors::{host_error, write_error};
use crate::locks::lock;
use crate::metadata::row_of;
use crate::name_row::NameRow;
use crate::open::Open;
use crate::shared::Core;
use crate::store::{EmbeddedStore, run_blocking};

/// The row of the catalogue with the first day on which reads were recorded.
const SINCE: &str = "reads-since";
const DAY: i64 = 86_400;
/// Number of metrics whose reads one batch records. Meanwhile, the creation and deletion of metrics has to
/// wait.
const NOTED_AT_ONCE: usize = 1000;

/// Days since the epoch. Day 0 stands for no read.
fn day_of(time: i64) -> u16 {
    (time / DAY).clamp(0, i64::from(u16::MAX)) as u16
}

/// Records that metrics are read on the day of `now`. Names that are not in the store yet are left out.
fn note(core: &Core, open: &Open, metrics: &[(MetricId, String)], now: i64) -> Result<(), StoreError> {
    let day = day_of(now);
    let mut metrics = core.noted.missing(day, metrics);
    // Sorted rows are looked up and inserted several times faster.
    metrics.sort_unstable_by(|a, b| a.1.cmp(&b.1));
    metrics.dedup();
    for some in metrics.chunks(NOTED_AT_ONCE) {
        pressure::wait(&open.fjall, [&open.names.rows].into_iter()).map_err(host_error)?;
        note_some(core, open, some, day)?;
    }
    Ok(())
}

fn note_some(core: &Core, open: &Open, metrics: &[&(MetricId, String)], day: u16) -> Result<(), StoreError> {
    // Without the lock, the record could restore a name that is deleted meanwhile.
    let _changes = lock(&open.configs.changes);
    let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
    let mut noted = Vec::with_capacity(metrics.len());
    for (id, name) in metrics.iter().copied() {
        let Some(row) = row_of(core, open, name) else { continue };
        if row.read_on != day {
            batch.insert(
                &open.names.rows,
                name.as_str(),
                NameRow { read_on: day, ..row }.to_bytes().as_slice(),
            );
        }
        noted.push(*id);
    }
    batch
        .commit()
        .and_then(|()| pressure::rotate_when_full(&open.names.rows, core.config.memtable_bytes.0))
        .map_err(|error| write_error("record which metrics were read", error))?;
    core.noted.add(day, noted.into_iter());
    Ok(())
}

/// Records the first day of the records, unless it is known. If the row is damaged, the day stays unknown,
/// which is no reason to refuse a start.
///
/// # Errors
/// If the database cannot be written.
pub(crate) fn begin(open: &Open, now: i64) -> Result<(), StoreError> {
    if !matches!(open.system.get(SINCE), Ok(None)) {
        return Ok(());
    }
    let day = crate::old_reads::since(open)?.unwrap_or(u32::from(day_of(now)));
    open.system
        .insert(SINCE, day.to_le_bytes())
        .map_err(|error| write_error("record since when reads are recorded", error))
}

/// When a metric was last read, by the row of its name: the start of that day, in seconds since the epoch.
pub(crate) fn last_read(row: &NameRow) -> Option<u32> {
    (row.read_on > 0).then(|| start_of(u32::from(row.read_on)))
}

/// The start of the day from which on reads were recorded, in seconds since the epoch.
pub(crate) fn noted_since(open: &Open) -> Option<u32> {
    let row = open.system.get(SINCE).ok().flatten()?;
    Some(start_of(u32::from_le_bytes(row.as_ref().try_into().ok()?)))
}

fn start_of(day: u32) -> u32 {
    day.saturating_mul(DAY as u32)
}

#[boxed_futures]
impl ReadNotes for EmbeddedStore {
    async fn note_read(&self, names: &[&str]) -> Result<(), StoreError> {
        let (store, now) = (self.clone(), self.core.clock.now());
        let metrics: Vec<_> = names.iter().map(|name| (MetricId::of(name), (*name).to_owned())).collect();
        run_blocking("record which metrics were read", move || {
            let open = store.core.open_to_note()?;
            store.core.watch(note(&store.core, &open, &metrics, now))
        })
        .await
    }
}
