//! Keeps the day on which each metric was last read: two bytes in the row of its name.
//!
//! The days help an operator to find metrics that are never read. Nothing else depends on them. They are not
//! in the copy of the names: a name that was restored from the copy has no day.

use std::sync::Mutex;

use async_trait::async_trait;
use fjall::PersistMode;
use plumbago_fjall_host::pressure;
use plumbago_model::MetricId;
use plumbago_store::{ReadNotes, StoreError};

use crate::errors::{host_error, write_error};
use crate::metadata::row_of;
use crate::name_row::NameRow;
use crate::open::Open;
use crate::store::{Core, EmbeddedStore, lock, run_blocking};

/// The row of the catalogue with the first day on which reads were recorded.
const SINCE: &str = "reads-since";
const DAY: i64 = 86_400;
/// Number of metrics whose reads one batch records. Meanwhile, the creation and deletion of metrics has to
/// wait.
const NOTED_AT_ONCE: usize = 1000;
/// Size of the table of metrics whose reads are known to be recorded today, so that they are not looked up
/// again. It uses 1 MiB. Must be a power of two.
const PLACES: usize = 1 << 17;

/// The metrics whose reads were recorded today. Several metrics share a place in the table, and the last one
/// replaces the others; only the rows are complete.
#[derive(Debug, Default)]
pub(crate) struct NotedToday(Mutex<(u16, Vec<u64>)>);

impl NotedToday {
    /// The metrics whose reads are not known to be recorded for this day.
    fn missing<'a>(&self, day: u16, metrics: &'a [(MetricId, String)]) -> Vec<&'a (MetricId, String)> {
        let known = lock(&self.0);
        let is_known = |id: &MetricId| known.0 == day && known.1.get(place(id)) == Some(&short(id));
        metrics.iter().filter(|(id, _)| !is_known(id)).collect()
    }

    fn add(&self, day: u16, ids: impl Iterator<Item = MetricId>) {
        let mut known = lock(&self.0);
        if known.0 > day {
            return;
        }
        if known.0 != day || known.1.is_empty() {
            *known = (day, vec![0; PLACES]);
        }
        for id in ids {
            known.1[place(&id)] = short(&id);
        }
    }

    /// Forgets a metric, because its row was deleted.
    pub(crate) fn remove(&self, id: &MetricId) {
        let mut known = lock(&self.0);
        if let Some(noted) = known.1.get_mut(place(id)).filter(|noted| **noted == short(id)) {
            *noted = 0;
        }
    }
}

fn place(id: &MetricId) -> usize {
    short(id) as usize & (PLACES - 1)
}

/// Ids are hashes, so a part of one serves as a hash. It is never 0, which stands for no metric.
fn short(id: &MetricId) -> u64 {
    id.0[8..].try_into().map_or(1, u64::from_le_bytes).max(1)
}

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
        .map_err(|error| write_error("note which metrics were read", error))?;
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
        .map_err(|error| write_error("note since when reads are noted", error))
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

#[async_trait]
impl ReadNotes for EmbeddedStore {
    async fn note_read(&self, names: &[&str]) -> Result<(), StoreError> {
        let (store, now) = (self.clone(), self.core.clock.now());
        let metrics: Vec<_> = names.iter().map(|name| (MetricId::of(name), (*name).to_owned())).collect();
        run_blocking("note which metrics were read", move || {
            let open = store.core.open_to_note()?;
            store.core.watch(note(&store.core, &open, &metrics, now))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(names: &[&str]) -> Vec<(MetricId, String)> {
        names.iter().map(|name| (MetricId::of(name), (*name).to_owned())).collect()
    }

    fn add(noted: &NotedToday, day: u16, metrics: &[(MetricId, String)]) {
        noted.add(day, metrics.iter().map(|(id, _)| *id));
    }

    #[test]
    fn a_day_forgets_the_one_before() {
        let noted = NotedToday::default();
        let all = metrics(&["a", "b", "c"]);
        assert_eq!(noted.missing(7, &all), [&all[0], &all[1], &all[2]]);
        add(&noted, 7, &all[..2]);
        assert_eq!(noted.missing(7, &all), [&all[2]]);
        noted.remove(&all[0].0);
        assert_eq!(noted.missing(7, &all), [&all[0], &all[2]]);
        assert_eq!(noted.missing(8, &all), [&all[0], &all[1], &all[2]]);
        add(&noted, 8, &all[2..]);
        add(&noted, 7, &all);
        assert_eq!(noted.missing(8, &all), [&all[0], &all[1]], "a late note of the day before");
    }

    #[test]
    fn metrics_of_one_place_are_told_apart() {
        let noted = NotedToday::default();
        let one = MetricId([7; 16]);
        let mut other = one;
        other.0[15] = 8;
        assert_eq!(place(&one), place(&other));
        let both = [(one, "one".to_owned()), (other, "other".to_owned())];
        add(&noted, 1, &both[..1]);
        assert_eq!(noted.missing(1, &both), [&both[1]]);
        add(&noted, 1, &both[1..]);
        assert_eq!(noted.missing(1, &both), [&both[0]], "which its row tells");
        noted.remove(&one);
        assert!(noted.missing(1, &both[1..]).is_empty());
    }
}
