//! Fills heads from state rows. One thread reads rows from the store while this one restores them.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::SyncSender;

use plumbago_model::MetricId;
use plumbago_store::{FlushStore, StoreError};

use super::numbers::{HeadAddress, HeadAddresses, Numbers, is_number};
use super::{ABREAST, Recovered, Sources, StartError};
use crate::shard::Shard;
use crate::shard::state_row::State;

/// Number of state rows in one batch between the threads.
const ROWS: usize = 1000;
/// Number of batches queued between the threads.
const QUEUE: usize = 8;
/// Number of damaged rows whose metric ids are logged.
const NAMED_MAX: usize = 10;

/// A batch of state rows.
type Rows = Vec<(MetricId, Vec<u8>)>;

/// What changes while state rows are restored.
struct Target<'a> {
    shards: &'a mut [Shard],
    places: HeadAddresses,
    numbers: &'a mut Numbers,
    report: &'a mut Recovered,
    damaged: Vec<Damaged>,
    /// A buffer for decoding.
    values: Vec<f64>,
}

/// A state row that cannot be decoded.
struct Damaged {
    id: MetricId,
    /// The metric's number, if that part of the row is readable.
    number: Option<u32>,
    /// The metric's head; `None` if the metric was deleted.
    place: Option<HeadAddress>,
}

/// Fills heads from all state rows of the store.
///
/// # Errors
/// When the store cannot be read.
pub(super) fn load(
    sources: &Sources<'_>,
    shards: &mut [Shard],
    places: HeadAddresses,
    numbers: &mut Numbers,
    report: &mut Recovered,
) -> Result<(), StartError> {
    let mut target = Target { shards, places, numbers, report, damaged: Vec::new(), values: Vec::new() };
    let held = sources.flush.take_held()?;
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Rows>(QUEUE);
        let reading = scope.spawn(move || read(sources.flush, &sender));
        for rows in receiver {
            rows.chunks(ABREAST).for_each(|rows| target.take(rows));
        }
        reading.join().map_err(|_| StartError::Aborted)?.map_err(StartError::from)
    })?;
    target.lose_ranges(sources.flush, &sources.flush.damaged_states());
    let lost = target.recover_damaged();
    if !lost.is_empty() {
        report_lost(sources, shards, &lost, held);
    }
    Ok(())
}

fn read(flush: &dyn FlushStore, sender: &SyncSender<Rows>) -> Result<(), StoreError> {
    let mut rows = Rows::with_capacity(ROWS);
    flush.scan_states(&mut |id, bytes| {
        rows.push((id, bytes.to_vec()));
        if rows.len() == ROWS {
            // The receiver outlives the sender, so sending cannot fail.
            let _ = sender.send(std::mem::replace(&mut rows, Rows::with_capacity(ROWS)));
        }
    })?;
    let _ = sender.send(rows);
    Ok(())
}

impl Target<'_> {
    /// Restores a few rows. One pass finds the heads, one loads them, one loads their windows and one fills
    /// them, so that the cache misses of a pass overlap.
    fn take(&mut self, rows: &[(MetricId, Vec<u8>)]) {
        let mut found = [None; ABREAST];
        for (place, (id, bytes)) in found.iter_mut().zip(rows) {
            *place = self.places.find(id);
            self.numbers.warm(State::number_of(bytes).unwrap_or(0));
        }
        found.iter().flatten().for_each(|(shard, at)| self.shards[usize::from(*shard)].warm_head(*at));
        found.iter().flatten().for_each(|(shard, at)| self.shards[usize::from(*shard)].warm_windows(*at));
        for (place, (id, bytes)) in found.into_iter().zip(rows) {
            match State::decode(bytes, &mut self.values) {
                Some(state) => take_row(self.shards, self.numbers, self.report, *id, place, &state),
                None => {
                    let number = State::number_of(bytes).filter(is_number);
                    self.damaged.push(Damaged { id: *id, number, place });
                }
            }
        }
    }

    /// Prepares the metrics of damaged rows for the replay, in which all their journal records are applied,
    /// including those that the row covered. Returns the metrics.
    fn recover_damaged(self) -> Vec<MetricId> {
        for row in &self.damaged {
            if let Some((shard, at)) = row.place {
                self.shards[usize::from(shard)].lose_state(at);
            }
            let Some(number) = row.number else { continue };
            match row.place {
                // The number in a damaged row may be wrong. If another metric has the number, that metric
                // keeps it.
                Some((shard, at)) if !self.numbers.is_taken(number) => {
                    self.shards[usize::from(shard)].heads[at].number = number;
                    self.numbers.set(number, (shard, at), 0);
                }
                _ => self.numbers.reserve(number),
            }
        }
        self.report.damaged_states = self.damaged.len() as u64;
        if let Some(first) = self.damaged.first() {
            let shard = first.place.map_or(0, |(shard, _)| usize::from(shard));
            self.shards[shard].stats.damaged_states.add(self.damaged.len() as u64);
        }
        self.damaged.iter().map(|row| row.id).collect()
    }

    /// Adds the metrics whose ids lie in ranges that the store cannot read, but only those that may have had a state
    /// row. Their numbers come from the store's second copy, so that their records in the journal are found.
    fn lose_ranges(&mut self, flush: &dyn FlushStore, ranges: &[(MetricId, MetricId)]) {
        let mut noted = HashMap::new();
        if !ranges.is_empty() {
            flush.noted_numbers(&mut |number, id| {
                if is_number(&number) && ranges.iter().any(|(from, to)| (from..=to).contains(&&id)) {
                    noted.insert(id, number);
                }
            });
        }
        for (from, to) in ranges {
            for (id, place) in self.places.between(from, to) {
                if self.shards[usize::from(place.0)].heads[place.1].number == 0 {
                    let number = noted.get(id).copied();
                    self.damaged.push(Damaged { id: *id, number, place: Some(*place) });
                }
            }
        }
    }
}

/// Reports which metrics have lost their state rows. If the last stop was a clean one, also reports how many points are
/// lost: `held` is the number of points in all state rows at that stop.
fn report_lost(sources: &Sources<'_>, shards: &[Shard], lost: &[MetricId], held: Option<u64>) {
    let ids: HashSet<&MetricId> = lost.iter().collect();
    let mut named = Vec::new();
    sources.index.for_each(&mut |name| {
        if named.len() < NAMED_MAX && ids.contains(&MetricId::of(name)) {
            named.push(name.to_owned());
        }
    });
    let found: u64 = shards.iter().map(|shard| shard.ledger.recovered).sum();
    let points = held.map(|held| held.saturating_sub(found));
    let cost = match points {
        Some(points) => format!("{points} points that were not in blocks yet are lost"),
        None => "points in them that neither the journal nor a block has are lost".to_owned(),
    };
    let text = format!(
        "state rows of {} metrics cannot be read ({}{}): {cost}. Their open windows are folded again from blocks and \
         journal. Nothing has to be done; a backup of the data directory may have the points",
        lost.len(),
        named.join(", "),
        if lost.len() > named.len() { ", …" } else { "" },
    );
    tracing::error!(rows = lost.len(), "{text}");
    sources.flush.report_damaged_states(&text, points.unwrap_or(0));
}

fn take_row(
    shards: &mut [Shard],
    numbers: &mut Numbers,
    report: &mut Recovered,
    id: MetricId,
    place: Option<HeadAddress>,
    state: &State<'_>,
) {
    if state.number != 0 && !is_number(&state.number) {
        return;
    }
    // A metric without metadata was deleted, and its head held nothing at that time.
    let Some(place) = place else {
        let is_empty = state.held == 0 && state.future.is_empty();
        numbers.orphan(id, state.number, if is_empty { state.sequence } else { 0 });
        return;
    };
    shards[usize::from(place.0)].restore(place.1, state);
    // A metric without a number gets one with its next point.
    if is_number(&state.number) {
        numbers.set(state.number, place, state.sequence);
    }
    report.states += 1;
}
