//! When metrics were last read, kept to the day: one small row for each metric that was ever read.
//!
//! The rows help an operator to find metrics that nobody looks at. Nothing else depends on them, so a row that cannot be
//! read counts as none.

use std::collections::HashSet;
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
/// The row with the day from which on reads were noted. No id is so short.
const SINCE: &[u8] = b"since";
const DAY: i64 = 86_400;
/// Metrics that memory remembers as noted on this day, so that they are not written again. Eight bytes each, and room.
const KNOWN_MAX: usize = 1 << 20;

/// The metrics that were noted today.
#[derive(Debug, Default)]
pub(crate) struct NotedToday(Mutex<(u32, HashSet<u64>)>);

impl NotedToday {
    /// The metrics that are not noted for this day yet.
    fn missing(&self, day: u32, ids: &[MetricId]) -> Vec<MetricId> {
        let mut known = lock(&self.0);
        if known.0 != day || known.1.len() >= KNOWN_MAX {
            *known = (day, HashSet::new());
        }
        ids.iter().copied().filter(|id| !known.1.contains(&short(id))).collect()
    }

    fn add(&self, day: u32, ids: &[MetricId]) {
        let mut known = lock(&self.0);
        if known.0 == day {
            known.1.extend(ids.iter().map(short));
        }
    }

    /// Forgets a metric, because its row was deleted.
    pub(crate) fn remove(&self, id: &MetricId) {
        lock(&self.0).1.remove(&short(id));
    }
}

/// Ids are hashes: a part of one is as good as another hash.
fn short(id: &MetricId) -> u64 {
    id.0[8..].try_into().map_or(0, u64::from_le_bytes)
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
    let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
    for id in &ids {
        batch.insert(&open.reads, id.0, day.to_le_bytes());
    }
    batch
        .commit()
        .and_then(|()| pressure::rotate_when_full(&open.reads, core.config.memtable_bytes.0))
        .map_err(|error| write_error("note which metrics were read", error))?;
    core.noted.add(day, &ids);
    Ok(())
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
    let row = open.reads.get(key).ok().flatten()?;
    let day = u32::from_le_bytes(row.as_ref().try_into().ok()?);
    Some(day.saturating_mul(DAY as u32))
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
            let open = store.core.open_to_write()?;
            store.core.watch(note(&store.core, &open, &ids, now))
        })
        .await
    }
}
