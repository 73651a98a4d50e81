//! Fills heads from state rows. One thread reads rows from the store while this one restores them.

use std::sync::mpsc::SyncSender;

use plumbago_model::MetricId;
use plumbago_store::{FlushStore, StoreError};

use super::numbers::{HeadAddress, HeadAddresses, Numbers, is_number};
use super::{ABREAST, Recovered, Sources, StartError};
use crate::shard::Shard;
use crate::shard::state_row::State;

/// State rows in one batch between the threads.
const ROWS: usize = 1000;
/// Batches queued between the threads.
const QUEUE: usize = 8;
/// Damaged rows whose metric ids are logged.
const NAMED_MAX: usize = 10;

/// A batch of state rows.
type Rows = Vec<(MetricId, Vec<u8>)>;

/// What restoring state rows changes.
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
    /// `None` when the metric was deleted.
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
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Rows>(QUEUE);
        let reading = scope.spawn(move || read(sources.flush, &sender));
        for rows in receiver {
            rows.chunks(ABREAST).for_each(|rows| target.take(rows));
        }
        reading.join().map_err(|_| StartError::Aborted)?.map_err(StartError::from)
    })?;
    target.recover_damaged();
    Ok(())
}

fn read(flush: &dyn FlushStore, sender: &SyncSender<Rows>) -> Result<(), StoreError> {
    let mut rows = Rows::with_capacity(ROWS);
    flush.scan_states(&mut |id, bytes| {
        rows.push((id, bytes.to_vec()));
        if rows.len() == ROWS {
            // The receiver outlives the sender.
            let _ = sender.send(std::mem::replace(&mut rows, Rows::with_capacity(ROWS)));
        }
    })?;
    let _ = sender.send(rows);
    Ok(())
}

impl Target<'_> {
    /// Restores a few rows. One pass finds heads, one loads them, one loads windows, one fills them, so that
    /// the cache misses of a pass overlap.
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

    /// Prepares the metrics of damaged rows for the replay: all their journal records will be applied, also
    /// those that the row covered.
    fn recover_damaged(self) {
        for row in &self.damaged {
            if let Some((shard, at)) = row.place {
                self.shards[usize::from(shard)].lose_state(at);
            }
            let Some(number) = row.number else { continue };
            match row.place {
                // The number in a damaged row may be wrong. If another metric has it, that one keeps it.
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
            let metrics: Vec<String> =
                self.damaged.iter().take(NAMED_MAX).map(|row| row.id.to_string()).collect();
            tracing::error!(
                rows = self.damaged.len(),
                first_metric_ids = metrics.join(" "),
                "state rows cannot be decoded: unflushed points of these metrics are recovered as far as the \
                 journal has them, older ones are lost"
            );
        }
    }
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
    // Without metadata the metric was deleted, and its head held nothing then.
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
