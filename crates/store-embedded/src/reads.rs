//! Keeps the day on which each metric was last read: one small row for each metric that was ever read.
//!
//! The rows help an operator to find metrics that nobody looks at. Nothing else depends on them, so a row that cannot be
//! read counts as none.

use std::sync::Mutex;

use async_trait::async_trait;
use fjall::{OwnedWriteBatch, PersistMode};
use plumbago_fjall_host::pressure;
use plumbago_model::MetricId;
use plumbago_store::{ReadNotes, StoreError};

use crate::errors::{read_error, write_error};
use crate::open::Open;
use crate::store::{Core, EmbeddedStore, lock, run_blocking};

/// The keyspace: id to day.
pub(crate) const KEYSPACE: &str = "reads";
/// The row with the first day on which reads were noted. Its key is shorter than any id.
const SINCE: &[u8] = b"since";
const DAY: i64 = 86_400;
/// Size of the table of metrics that are known to be noted today, so that they are not looked up again. It takes 1 MiB.
/// Must be a power of two.
const PLACES: usize = 1 << 17;

/// Metrics that were noted today. Several metrics share a place in the table, and the last one takes it over; only the
/// rows are complete.
#[derive(Debug, Default)]
pub(crate) struct NotedToday(Mutex<(u32, Vec<u64>)>);

impl NotedToday {
    /// The metrics that are not known to be noted for this day.
    fn missing(&self, day: u32, ids: &[MetricId]) -> Vec<MetricId> {
        let known = lock(&self.0);
        let is_known = |id: &MetricId| known.0 == day && known.1.get(place(id)) == Some(&short(id));
        ids.iter().copied().filter(|id| !is_known(id)).collect()
    }

    fn add(&self, day: u32, ids: &[MetricId]) {
        let mut known = lock(&self.0);
        if known.0 > day {
            return;
        }
        if known.0 != day || known.1.is_empty() {
            *known = (day, vec![0; PLACES]);
        }
        for id in ids {
            known.1[place(id)] = short(id);
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

fn day_of(time: i64) -> u32 {
    u32::try_from(time / DAY).unwrap_or(0)
}

/// Notes that metrics are read on the day of `now`.
fn note(core: &Core, open: &Open, ids: &[MetricId], now: i64) -> Result<(), StoreError> {
    let day = day_of(now);
    let mut ids = core.noted.missing(day, ids);
    if ids.is_empty() {
        return Ok(());
    }
    ids.sort_unstable();
    ids.dedup();
    let unnoted: Vec<MetricId> = ids.iter().copied().filter(|id| row(open, &id.0) != Some(day)).collect();
    if !unnoted.is_empty() {
        write(core, open, &unnoted, day)?;
    }
    core.noted.add(day, &ids);
    Ok(())
}

fn write(core: &Core, open: &Open, ids: &[MetricId], day: u32) -> Result<(), StoreError> {
    let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
    for id in ids {
        batch.insert(&open.reads, id.0, day.to_le_bytes());
    }
    batch
        .commit()
        .and_then(|()| pressure::rotate_when_full(&open.reads, core.config.memtable_bytes.0))
        .map_err(|error| write_error("note which metrics were read", error))
}

/// Notes the first day of the notes, unless it is known.
///
/// # Errors
/// If the database cannot be read or written.
pub(crate) fn begin(open: &Open, now: i64) -> Result<(), StoreError> {
    let since =
        open.reads.get(SINCE).map_err(|error| read_error("read since when reads are noted", error))?;
    if since.is_some() {
        return Ok(());
    }
    let day = day_of(now).to_le_bytes();
    open.reads.insert(SINCE, day).map_err(|error| write_error("note since when reads are noted", error))
}

/// When a metric was last read: the start of that day, in seconds since the epoch.
pub(crate) fn last_read(open: &Open, name: &str) -> Option<u32> {
    day_in(open, &MetricId::of(name).0)
}

/// The start of the day from which on reads were noted, in seconds since the epoch.
pub(crate) fn noted_since(open: &Open) -> Option<u32> {
    day_in(open, SINCE)
}

fn day_in(open: &Open, key: &[u8]) -> Option<u32> {
    row(open, key).map(|day| day.saturating_mul(DAY as u32))
}

/// The day in a row.
fn row(open: &Open, key: &[u8]) -> Option<u32> {
    let row = open.reads.get(key).ok().flatten()?;
    Some(u32::from_le_bytes(row.as_ref().try_into().ok()?))
}

/// Removes what is noted of a metric, by a row in the batch that deletes it.
pub(crate) fn remove(core: &Core, open: &Open, batch: &mut OwnedWriteBatch, name: &str) {
    let id = MetricId::of(name);
    batch.remove(&open.reads, id.0);
    core.noted.remove(&id);
}

#[async_trait]
impl ReadNotes for EmbeddedStore {
    async fn note_read(&self, names: &[&str]) -> Result<(), StoreError> {
        let (store, now) = (self.clone(), self.core.clock.now());
        let ids: Vec<MetricId> = names.iter().map(|name| MetricId::of(name)).collect();
        run_blocking("note which metrics were read", move || {
            let open = store.core.open_to_note()?;
            store.core.watch(note(&store.core, &open, &ids, now))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<MetricId> {
        names.iter().map(|name| MetricId::of(name)).collect()
    }

    #[test]
    fn a_day_forgets_the_one_before() {
        let noted = NotedToday::default();
        let all = ids(&["a", "b", "c"]);
        assert_eq!(noted.missing(7, &all), all);
        noted.add(7, &all[..2]);
        assert_eq!(noted.missing(7, &all), all[2..]);
        noted.remove(&all[0]);
        assert_eq!(noted.missing(7, &all), [all[0], all[2]]);
        assert_eq!(noted.missing(8, &all), all);
        noted.add(8, &all[2..]);
        noted.add(7, &all);
        assert_eq!(noted.missing(8, &all), all[..2], "a late note of the day before");
    }

    #[test]
    fn metrics_of_one_place_are_told_apart() {
        let noted = NotedToday::default();
        let one = MetricId([7; 16]);
        let mut other = one;
        other.0[15] = 8;
        assert_eq!(place(&one), place(&other));
        noted.add(1, &[one]);
        assert_eq!(noted.missing(1, &[one, other]), [other]);
        noted.add(1, &[other]);
        assert_eq!(noted.missing(1, &[one, other]), [one], "which its row tells");
        noted.remove(&one);
        assert!(noted.missing(1, &[other]).is_empty());
    }
}
